"""A training that ends once success is shown on held-out starts, and that changes nothing else of the run."""

from math import pi
from pathlib import Path

import pytest
import torch
from command import assert_one_line_error, here
from scipy.stats import binom
from small_run import train_cfg

from phalanx.progress import training_note
from policies.checkpoint import BEST, load_checkpoint
from policies.evaluation.evaluate import evaluate
from policies.evaluation.trained import load_controllers
from policies.training.held_out import ERROR, SEED, at_least, starts_of
from policies.training.train import train
from sim.tasks import load_task
from sim.terms import Term, arms

STEPS = 1280


def near_enough(distance_m: float):
    """Reach, in short episodes that succeed within `distance_m`: before any training 0.4 m are 63 % and 0.6 m 88 %."""
    term = Term(arms.tool_there, {"distance_m": distance_m, "angle_rad": pi})
    return load_task("reach").changed(success=term, episode_s=0.2, success_hold_s=0.1)


def trained(out: Path, distance_m: float, on_progress=None, **options):
    small = {"num_envs": 16, "num_steps": 10, "epochs": 1, "hidden": 8, "checkpoint_every": 2}
    return train(train_cfg(task=near_enough(distance_m), out=out, total_steps=STEPS, **small, **options), on_progress)


@pytest.mark.slow
def test_it_ends_at_the_first_checkpoint_that_shows_the_success_and_keeps_those_policies_as_the_best(tmp_path):
    result = trained(tmp_path, 2.0, stop_at=0.95)
    assert result.finished and result.agent_steps < STEPS
    assert "a success of 98.6 % or more is shown on held-out starts" in result.message  # of 256 starts, none failed
    best, last = (load_checkpoint(path)["policies"]["panda"]["state"] for path in (tmp_path / BEST, tmp_path))
    assert all(torch.equal(value, best[name]) for name, value in last.items())
    task = near_enough(2.0)
    found = evaluate(load_controllers(tmp_path, task), task, 256, SEED, shield=True)
    assert found.success_rate == 1 and load_checkpoint(tmp_path)["progress"]["shown"] == at_least(256, 256, look=1)
    again = trained(tmp_path, 2.0, stop_at=0.95, resume=True)
    assert again.finished and again.agent_steps == result.agent_steps and again.message == result.message


@pytest.mark.slow
def test_a_success_that_is_not_shown_ends_nothing_and_leaves_the_run_as_it_would_have_been(tmp_path):
    plain, looked, told = tmp_path / "plain", tmp_path / "looked", []
    assert trained(plain, 0.6).agent_steps == trained(looked, 0.6, told.append, stop_at=0.97).agent_steps == STEPS
    one, other = load_checkpoint(plain), load_checkpoint(looked)
    assert torch.equal(one["generators"]["action"], other["generators"]["action"])
    assert torch.equal(one["rng"]["torch"], other["rng"]["torch"])
    for name, value in one["policies"]["panda"]["state"].items():
        assert torch.equal(value, other["policies"]["panda"]["state"][name])
    shown = other["progress"]["shown"]
    assert 0.5 < shown < 0.97 and one["progress"]["shown"] == 0.0, "it has flown, and found too little"
    shares = [numbers["held_out"] for numbers in told if "held_out" in numbers]
    assert shares[0] < 0.5 and len(shares) > 5 * shares.count(1.0), "it is said while it flies"
    assert other["progress"]["looks"] == shares.count(1.0) >= 1
    assert training_note(told[0] | {"held_out": 0.4}) == "held-out starts are flown, 40 %"


def test_all_looks_of_a_training_together_show_too_much_in_one_training_of_twenty_at_most():
    """Counted, not drawn: how probable each number of successes is, and what it would show."""
    true, wrong = 0.95, 0.0
    for look in range(1, 60):
        starts = starts_of(true, look)
        chances = binom.pmf(range(starts + 1), starts, true)
        wrong += sum(p for n, p in enumerate(chances) if p > 1e-12 and at_least(n, starts, look) > true)
    assert 0.1 * ERROR < wrong < ERROR
    alone = sum(p for n, p in enumerate(binom.pmf(range(257), 256, true)) if at_least(n, 256, 1) > true)
    assert 5 * alone > ERROR, "without a share for each, five looks would be wrong too often"


@pytest.mark.parametrize("asked", [0.5, 0.95, 0.999])
def test_a_success_can_be_shown_at_any_look_with_a_failure_too(asked):
    for look in (1, 10, 1000):
        starts = starts_of(asked, look)
        assert at_least(starts, starts, look) > at_least(starts - 1, starts, look) > asked
        assert at_least(starts, starts, look) > at_least(starts, starts, look + 1), "looks that come later show less"


def test_the_command_refuses_what_no_number_of_starts_can_show(tmp_path):
    assert_one_line_error(here("train", "hover", "--stop-at", "1", cwd=tmp_path), "stop-at = 1", "0.999")
    assert not list(tmp_path.iterdir())
