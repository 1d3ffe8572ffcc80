"""What arms see of objects: late, sometimes nothing new, and off by where the camera is mounted."""

import pytest
import torch
from one_group import make_env

from sim import randomisation
from sim.noise import Noise
from sim.tasks import load_task
from sim.terms import EventTerm

STEPS, LATE = 4, 3  # control steps, and by how many of them pictures are late
MOUNTED_WELL = Noise()


def pushed(delay_s=0.0, missing=0.0, offset=MOUNTED_WELL, worlds=2):
    """Where the puck was, and where and how old it was seen, after each of some steps in which the arm pushes it."""
    task = load_task("push")
    params = {"delay_s": (delay_s, delay_s), "missing": (missing, missing), "offset": offset}
    camera = {"camera": EventTerm(randomisation.camera, params)}
    env = make_env(task.changed(randomisation=camera, noise=Noise()), worlds, 0)
    puck = torch.as_tensor(env.world.scene.objects[0].qvel[:1])
    env.world.physics.add_velocity(torch.arange(worlds), puck, torch.full((worlds, 1), 0.5))
    true, seen, age = [], [], []
    for _ in range(STEPS):
        env.step(torch.zeros(worlds, 1, env.group.action_dim))
        true.append(env.now.objects["puck"].pos[:, 0].clone())
        seen.append(env.measured[2]["puck"].pos[:, 0].clone())
        age.append(env.measured[2]["puck"].age[:, 0].clone())
    return torch.stack(true), torch.stack(seen), torch.stack(age)


def test_a_picture_shows_the_past_and_says_so():
    true, seen, age = pushed(delay_s=LATE * 0.02)
    assert torch.equal(seen[LATE], true[0]) and (true[1:] != true[:-1]).any(-1).all()
    assert age == pytest.approx(LATE * 0.02)


def test_without_new_pictures_the_last_one_stands_and_ages():
    true, seen, age = pushed(missing=1.0)
    assert (seen == seen[0]).all() and not torch.equal(true[-1], true[0])
    assert age[:, 0].tolist() == pytest.approx([0.02, 0.04, 0.06, 0.08])


def test_some_pictures_are_missing():
    *_, age = pushed(missing=0.5, worlds=64)
    assert 0.4 < (age == 0).float().mean() < 0.6


def test_a_camera_is_off_by_the_same_all_the_time_and_differently_in_each_world():
    true, seen, _ = pushed(offset=Noise(pos_m=0.01))
    off = seen - true
    assert off == pytest.approx(off[:1].expand_as(off), abs=1e-6) and not torch.allclose(off[0, 0], off[0, 1])


def test_pictures_later_than_what_is_remembered_are_refused():
    with pytest.raises(ValueError, match="possible"):
        pushed(delay_s=0.2)
