"""The generated documents cover all tasks and all randomisation: `make docs`."""

import inspect

import pytest

from phalanx.documents.catalogue import describe_task, in_words, when
from phalanx.documents.tasks import write_documents
from policies.task_data import first_sentence
from sim import randomisation
from sim.tasks import load_task, task_names


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> dict[str, str]:
    return {path.name: path.read_text() for path in write_documents(tmp_path_factory.mktemp("docs"))}


def test_every_task_and_every_way_to_randomise_is_there(written):
    for task in task_names():
        assert f"\n## {task}\n" in written["tasks.md"]
    for name, function in inspect.getmembers(randomisation, inspect.isfunction):
        if not name.startswith("_"):
            assert f"| `{name}` | {first_sentence(function)} |" in written["randomisation.md"]


def test_no_row_breaks_its_table(written):
    for text in written.values():
        for block in text.split("\n\n"):
            lines = block.splitlines()
            if lines[0].startswith("|"):
                assert len({line.count(" | ") for line in lines}) == 1, lines[0]


def test_a_task_is_described_with_the_sizes_that_its_network_sees():
    from sim.envs.team_env import TeamEnv

    described = describe_task(load_task("swarm-swap"))["groups"]["crazyflie"]
    seen = TeamEnv(load_task("swarm-swap"), 1, seed=0).reset(0)["crazyflie"]
    assert sum(term["size"] for term in described["observation"]["own"]) == seen.policy.shape[-1]
    assert sum(term["size"] for term in described["observation"]["peer"]) == seen.neighbours.shape[-1]
    assert {term["name"]: term["weight"] for term in described["rewards"]}["failed"] == -10.0


def test_ranges_of_a_task_stand_beside_what_they_change(written):
    mass = load_task("hover").group.randomisation["mass"]
    low, high = mass.params["scale"]
    assert f"| `mass` | hover | scale {low:g} to {high:g} | each episode |" in written["randomisation.md"]


def test_words_for_figures():
    assert in_words({"scale": (0.5, 1.5), "low_m": (-1.0, 0.0, 2.5), "name": "x"}) == (
        "scale 0.5 to 1.5, low_m (-1, 0, 2.5), name x"
    )
    assert [when(None), when((0.0, 0.0)), when((1.0, 1.0)), when((1.0, 3.0))] == [
        "each episode",
        "each step",
        "every 1 s",
        "every 1 to 3 s",
    ]

    def term():
        """Vector to the goal, (..., 3) m, body. More of it."""

    assert first_sentence(term) == "Vector to the goal, (..., 3) m, body."
