"""Every task can be watched: what is recorded is what happened, and what is drawn shows it."""

import json
import re
from dataclasses import replace

import mujoco
import numpy as np
import pytest
from PIL import Image

from phalanx.agents import make_agent
from phalanx.commands.play import row_of
from phalanx.report import render_replay
from phalanx.report.episode import play_episode
from phalanx.report.figures import poses_of
from phalanx.report.filming import make_film, visual_scene
from phalanx.report.framing import framing
from phalanx.report.places import robot_labels
from phalanx.report.render import COLOURS, choose_opengl
from phalanx.report.shapes import shapes_of
from phalanx.report.video import save_picture
from policies.evaluation.evaluate import make_policy_runner
from sim.envs.world import task_scene
from sim.tasks import load_task, task_names
from sim.tasks.hover import HOVER


def short(name: str, agent: str = "zero", seconds: float = 0.4):
    task = replace(load_task(name), episode_s=seconds)
    pilots = {role: make_agent(agent, 0, part) for role, part in task.groups.items()}
    return play_episode(task, pilots, None, 0, shield=False)


def test_what_is_watched_is_what_the_file_commands_whatever_its_action_means_today():
    task = replace(load_task("hover"), episode_s=1.0)
    action = task.group.action
    changed = task.changed(action=replace(action, scale=tuple(-scale for scale in action.scale)))
    one, other = (
        play_episode(each, {task.group_name: make_policy_runner("zoo/hover.onnx")}, None, 0, shield=False)
        for each in (task, changed)
    )
    assert np.array_equal(one.flight.pos, other.flight.pos)


def page_data(episode, name: str) -> dict:
    page = render_replay(episode.flight, name, episode.robots, "its policy", row_of(0, episode, False))
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])


@pytest.mark.parametrize("name", task_names())
def test_any_task_makes_a_picture_a_page_and_figures(name):
    task, episode = load_task(name), short(name, "random")
    robots = sum(role.num_agents for role in task.groups.values())
    film = episode.flight.film
    assert np.isfinite(film.pos).all() and np.isfinite(episode.qpos).all()
    assert {shape.owner for shape in film.shapes} >= set(range(robots))
    assert len(episode.flight.names) == len(set(episode.flight.names)) == robots
    assert (
        np.isclose(sum(episode.reward_terms.values()), episode.mean_return, rtol=1e-3, atol=1e-3)
        or len(task.groups) > 1
    )
    page = page_data(episode, name)
    flight = page["flight"]
    assert len(flight["film"]["shapes"]) == len(film.shapes) and len(flight["film"]["poses"]) == len(flight["t"])
    assert page["result"]["task"] == name and all(robot in page["title"] for robot in episode.robots)
    sums = {term["name"]: term["sum"] for term in flight["rewards"]}
    assert sums == pytest.approx(episode.reward_terms)


@pytest.mark.parametrize("name", task_names())
def test_the_scene_that_is_drawn_has_the_coordinates_of_the_one_that_was_stepped(name):
    plain, shown = task_scene(load_task(name)).model, visual_scene(load_task(name), dressed=True).model
    assert plain.nq == shown.nq
    assert [plain.joint(k).name for k in range(plain.njnt)] == [shown.joint(k).name for k in range(shown.njnt)]
    assert shown.ngeom >= plain.ngeom


def test_links_are_drawn_where_the_simulator_has_them():
    task = load_task("reach")
    scene = visual_scene(task)
    qpos = np.random.default_rng(0).uniform(-0.5, 0.5, (2, scene.model.nq))
    film = make_film(scene, poses_of(scene.model, qpos))
    data = mujoco.MjData(scene.model)
    data.qpos[:] = qpos[1]
    mujoco.mj_forward(scene.model, data)
    capsules = {scene.model.geom(k).name: k for k in range(scene.model.ngeom) if scene.model.geom_type[k] == 3}
    drawn = [shape for shape in film.shapes if shape.name in capsules and shape.name]
    assert len(drawn) >= 5
    for shape in drawn:
        centre = film.placed(1, shape.body, shape.points).mean(0)
        assert np.allclose(centre, data.geom_xpos[capsules[shape.name]], atol=1e-6), shape.name


SOLIDS = """
<mujoco><asset><hfield name="hills" nrow="5" ncol="7" size="1 2 0.5 0.1"/></asset><worldbody>
  <geom name="floor" type="plane" size="1 1 1"/><geom name="hidden" type="sphere" size="1" rgba="1 1 1 0"/>
  <geom name="hills" type="hfield" hfield="hills"/>
  <body name="table" pos="0 0 0.4"><geom name="top" type="box" size="0.5 0.3 0.02"/></body>
  <body name="thing" pos="0 0 1"><freejoint/>
    <geom name="can" type="cylinder" size="0.1 0.2"/><geom name="egg" type="ellipsoid" size="0.1 0.2 0.3"/></body>
</worldbody></mujoco>
"""


def test_every_kind_of_solid_has_a_hull_of_its_size():
    model = mujoco.MjModel.from_xml_string(SOLIDS)
    shapes = shapes_of(model, np.full(model.nbody, -1))
    found = {shape.name: shape for shape in shapes}
    assert set(found) == {"hills", "top", "can", "egg"}
    assert np.allclose(np.ptp(found["can"].points, axis=0), [0.2, 0.2, 0.4])
    assert np.allclose(np.ptp(found["egg"].points, axis=0), [0.2, 0.4, 0.6], atol=0.04)
    assert found["top"].body == 0 and np.isclose(found["top"].points[:, 2].max(), 0.42)  # it cannot move
    assert found["can"].body > 0
    patches = np.concatenate([shape.points for shape in shapes if shape.name == "hills"])
    assert np.allclose(patches.min(0)[:2], [-1, -2]) and np.allclose(patches.max(0)[:2], [1, 2])


@pytest.mark.slow
def test_doing_nothing_and_a_good_controller_come_to_different_ends():
    lazy, skilled = short("hover", "zero", 5.0), short("hover", "baseline", 5.0)
    assert skilled.success and not lazy.success
    assert skilled.mean_return > lazy.mean_return
    goal = skilled.flight.goal[0]
    assert np.linalg.norm(skilled.flight.pos[-1, 0] - goal) < 0.1 < np.linalg.norm(lazy.flight.pos[-1, 0] - goal)


def test_the_last_moment_is_the_one_that_ended_the_episode():
    episode = short("hover", "zero", 5.0)
    flight, space = episode.flight, HOVER.group.terminations["outside"].params
    assert episode.failure == "outside" and episode.duration_s == flight.t[-1] < 5.0
    inside = ((space["low_m"] <= flight.pos[:, 0]) & (flight.pos[:, 0] <= space["high_m"])).all(-1)
    assert not inside[-1] and inside[-2]
    assert np.allclose(episode.qpos[-1, :3], flight.pos[-1, 0])
    assert all(len(values) == len(flight.t) for values in (flight.mode, *flight.rewards.values()))


def opengl() -> bool:
    try:
        choose_opengl()
    except ValueError:
        return False
    return True


needs_opengl = pytest.mark.skipif(not opengl(), reason="needs EGL or OSMesa")


@needs_opengl
def test_a_video_ends_with_the_last_moment(tmp_path):
    task = load_task("hover").changed(episode_s=0.1)
    episode = play_episode(task, {"crazyflie": make_agent("zero", 0, task.group)}, None, 0, shield=False)
    save_picture(tmp_path / "short.gif", episode, task, (320, 180))
    with Image.open(tmp_path / "short.gif") as video:
        assert video.n_frames == 4  # at 0, 0.04, 0.08 and 0.1 s
        assert video.size == (320, 180)


@needs_opengl
def test_trails_and_goals_have_the_colour_of_their_robot(tmp_path):
    """Nothing but the four colours of the page, shaded, stands out from the grey of floor and sky."""
    task, episode = load_task("swarm-swap"), short("swarm-swap", "baseline", 1.0)
    save_picture(tmp_path / "swap.png", episode, task, (640, 360))
    pixels = np.asarray(Image.open(tmp_path / "swap.png").convert("HSV")).reshape(-1, 3).astype(int)
    vivid = pixels[(pixels[:, 1] > 120) & (pixels[:, 2] > 60)][:, 0]
    wanted = np.array([hue(colour) for colour in COLOURS[:4]])
    away = np.abs((vivid[:, None] - wanted + 128) % 256 - 128)
    assert len(vivid) > 500 and (away.min(1) < 12).mean() > 0.9
    assert all((away.argmin(1) == robot).sum() > 50 for robot in range(4))


def hue(colour: str) -> int:
    return Image.new("RGB", (1, 1), colour).convert("HSV").getpixel((0, 0))[0]


def outside_px(points: np.ndarray, t: np.ndarray) -> float:
    """How far points (T, M, 3) m get out of the page's picture of 1000 x 520 pixels: the projection of replay.js."""
    (centre, size), yaw, tilt, width, height = framing(points, t), -0.62, 0.46, 1000.0, 520.0
    x, y, z = np.moveaxis(points - centre[:, None], -1, 0)
    right, away = -np.sin(yaw) * x + np.cos(yaw) * y, -np.cos(yaw) * x - np.sin(yaw) * y
    up, depth = np.cos(tilt) * z + np.sin(tilt) * away, 2.6 * size + np.cos(tilt) * away - np.sin(tilt) * z
    zoom = min(width, 1.62 * height) * 1.62 / depth
    across, down = width / 2 + zoom * right, 0.52 * height - zoom * up
    return max(-across.min(), across.max() - width, -down.min(), down.max() - height)


def test_a_walker_stays_in_the_picture_and_is_never_small_in_it():
    t = np.arange(0.0, 10.0, 0.02)
    body = np.random.default_rng(0).uniform((-0.3, -0.3, 0.0), (0.3, 0.3, 1.3), (40, 3))
    for metres in (0.0, 0.5, 1.4, 2.0, 4.0, 9.0):
        for heading in np.arange(0.0, 6.28, 0.8):
            along = metres * t / t[-1]
            way = np.stack([along * np.cos(heading), along * np.sin(heading), 0.0 * t], axis=-1)
            points = way[:, None] + body
            assert outside_px(points, t) <= 0.0, (metres, heading)
            assert framing(points, t)[1] < 2.3


@pytest.mark.slow
def test_charts_are_those_of_the_task_and_the_class_of_robot():
    arm = {chart.title: chart for chart in short("reach", "baseline", 3.0).flight.charts}
    (tool,) = arm["Distance to goal"].lines
    assert set(arm) == {"Distance to goal"} and tool.values[-1] < 0.3 * tool.values[0]
    walker = {chart.title: chart for chart in short("velocity", "zero").flight.charts}
    measured, command = walker["Walking speed"].lines
    assert command.dashed and not measured.dashed and np.ptp(command.values) == 0.0
    drone = short("hover", "baseline", 2.0).flight
    (base,) = drone.charts[0].lines
    assert np.allclose(base.values, np.linalg.norm(drone.pos[:, 0] - drone.goal[0], axis=-1), atol=1e-5)
    push = short("push", "zero").flight.charts[0]
    assert push.title == "Distance to goal" and [line.owner for line in push.lines] == [
        -1
    ]  # the thing's, not the tool's


def test_robots_have_names_that_differ():
    assert robot_labels(["panda"]) == ("panda",)
    assert robot_labels(["crazyflie"] * 2) == ("cf1", "cf2")
    assert robot_labels(["g1", "panda", "g1"]) == ("g1-1", "panda", "g1-2")
