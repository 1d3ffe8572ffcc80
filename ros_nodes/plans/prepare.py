"""Checks the policies of a mission, and writes the parameters of its nodes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from deploy.bundle import load_bundle
from deploy.bundle.signature import key_text, read_public_key
from deploy.contract import CommandSpec, Contract
from deploy.contract.groups import group_and_number
from deploy.runtime.compatibility import check_robot
from deploy.runtime.graph_inputs import as_typed
from deploy.shield import JointShieldParams, ShieldParams, owned_params
from deploy.shield.joints.capsules import link_rows
from hardware import load_robot
from hardware.spec import Joint
from ros_nodes.messages.commands import UNIT_WITHIN, own_topics
from ros_nodes.messages.scene import NO_SCENE, Neighbour, Scene, Surroundings
from ros_nodes.plans.kept_stops import stop_folder
from ros_nodes.plans.mission import Member, Mission, Order, save_mission, yaw_of
from ros_nodes.plans.team import Team

PLAN, PARAMETERS = "plan.json", "params.yaml"
# Parameters of a robot's policy that its driver has too.
OF_A_DRIVER = ("robot_type", "base_pose", "bundle", "trusted_keys")
OUTSIDE = 0.02  # of its range that a joint may begin outside: at a stop it is measured a little beyond it
ShieldOf = dict[str, ShieldParams | JointShieldParams]  # robot by name


def prepare(
    mission: Mission, out: Path, team: Team | None = None, here: Sequence[str] = (), trusted: Sequence[str] = ()
) -> ShieldOf:
    """Check every policy of `mission`, write what its nodes read into `out`; the parameters of each robot's shield.

    `team`: the file that the mission is from, with limits, drivers and keys; `here`: the robots that this computer
    carries; `trusted`: public keys, one of which must have signed each policy; none for any policy. What the file
    requires of their verification is checked too.

    BundleError or ValueError for a policy or a mission that cannot be.
    """
    trusted = [key_text(read_public_key(text)) for text in (*trusted, *(team.trusted_keys if team else ()))]
    requires = team.requires if team else ""
    bundles = {file: load_bundle(file, trusted, requires) for file in dict.fromkeys(m.bundle for m in mission.team)}
    shields, limits = {}, team.limits() if team else {}
    for member in mission.team:
        contract = bundles[member.bundle].contract
        check_policy(contract, mission, member)
        spec = load_robot(member.robot)
        _check_joints(member, spec.joints)
        shields[member.name] = owned_params(spec, contract.shield, limits.get(member.name, {}))
    for old in ("bag", "series", "logs"):
        if (out / old).exists():
            way = f"give a new one, or remove {out} first"
            raise ValueError(f"{out / old} exists already: every mission needs a folder of its own; {way}")
    out.mkdir(parents=True, exist_ok=True)
    prints = {member.name: bundles[member.bundle].fingerprint for member in mission.team}
    save_mission(mission, out / PLAN)
    parameters = team_parameters(mission, shields, prints, out, trusted, team.scene if team else NO_SCENE)
    if team is not None:
        _apply_team(parameters, mission, team, here, out)
    (out / PARAMETERS).write_text(json.dumps(parameters, indent=1))
    return shields


def _apply_team(parameters: dict[str, Any], mission: Mission, team: Team, here: Sequence[str], out: Path) -> None:
    """Parameters of the drivers, of the nodes that serve this computer's robots only, and the names of these nodes."""
    own = {name: parameters[name]["ros__parameters"] for name in ("/simulated_robots", "/mission")}
    simulated = [name for name in here if name in team.simulated]
    for node, names, file in (("/simulated_robots", simulated, "simulated.json"), ("/mission", here, "orders.json")):
        save_mission(mission.part(names), out / file)
        own[node]["mission"] = str(out / file)
    own["/mission"]["team"] = list(here)
    solid = msgspec.structs.replace(team.scene, keep_out=())
    own["/simulated_robots"]["surroundings"] = msgspec.json.encode(Surroundings(solid)).decode()
    for robot in team.robots:
        parameters[f"/{robot.name}/policy"]["ros__parameters"]["requires"] = team.requires
        shield = parameters[f"/{robot.name}/shield"]["ros__parameters"]
        shield |= team.charges(robot) | {"stop_dir": stop_folder(robot, shield["stop_dir"])}
        if robot.driver:
            values = {key: parameters[f"/{robot.name}/policy"]["ros__parameters"][key] for key in OF_A_DRIVER}
            values |= {"driver": robot.driver, "options": json.dumps(robot.options)}
            parameters[f"/{robot.name}/driver"] = {"ros__parameters": values}
    if team.namespace:
        for name in mission.names:
            parameters[f"/{name}/shield"]["ros__parameters"]["people_topic"] = f"/{team.namespace}/people"
        for node in ("/simulated_robots", "/mission", "/recorder"):
            parameters[f"/{team.namespace}{node}"] = parameters.pop(node)


def check_policy(contract: Contract, mission: Mission, member: Member) -> None:
    """ValueError for a policy of another robot or group, or one that the mission does not fit.

    It does not fit where it sends commands that the policy refuses, or lacks an object that the policy observes.
    """
    check_robot(contract, load_robot(member.robot), member.bundle)
    if contract.group not in ("", member.group, mission.own_policy(member)):
        is_one = group_and_number(contract.group)[1] is not None
        whose = repr(mission.own_policy(member)) if is_one else f"in {member.group!r}"
        raise ValueError(f"{member.bundle}: is for group {contract.group!r}, {member.name} is {whose}")
    specs = {command.name: command for command in contract.commands}
    course = mission.courses.get(member.name)
    goals = [Order(0.0, {member.name: {"goal_pos": goal}}) for goal in course.goals] if course else []
    for order in (*mission.orders, *goals):
        for name, value in order.commands.get(member.name, {}).items():
            if name not in specs:
                known = ", ".join(specs) or "no commands"
                raise ValueError(f"the mission commands {name!r}; the policy takes: {known}")
            _check_value(specs[name], np.asarray(value, np.float32), member.name)
    for name in contract.objects:
        if name not in mission.objects and mission.orders:  # without any, a tracker of the user's
            raise ValueError(f"the policy observes {name!r}, which the mission does not have")


def _check_value(spec: CommandSpec, value: np.ndarray, robot: str) -> None:
    low, high = np.array(spec.low, np.float32), np.array(spec.high, np.float32)
    command = f"the mission commands {robot} {spec.name} = {as_typed(value.ravel())}"
    if value.shape != low.shape or not ((value >= low) & (value <= high)).all():
        raise ValueError(f"{command}; the policy was trained for {list(spec.low)} to {list(spec.high)}")
    if spec.name == "goal_quat" and not abs(np.linalg.norm(value) - 1.0) < UNIT_WITHIN:
        raise ValueError(f"{command}; a quaternion wxyz has a length of 1")


def _check_joints(member: Member, joints: Sequence[Joint]) -> None:
    if (given := len(member.joint_pos)) != len(joints):
        raise ValueError(
            f"the mission begins with {given} joint_pos of {member.name}; {member.robot} has {len(joints)}"
        )
    for joint, value in zip(joints, member.joint_pos.tolist(), strict=True):
        slack = OUTSIDE * (joint.high - joint.low)
        if not joint.low - slack <= value <= joint.high + slack:
            begins = f"the mission begins with {joint.name} of {member.name} at {value:g}"
            raise ValueError(f"{begins}; its range is {joint.low:g} to {joint.high:g}")


def team_parameters(
    mission: Mission,
    shields: ShieldOf,
    prints: Mapping[str, str],
    out: Path,
    trusted: Sequence[str],
    scene: Scene = NO_SCENE,
) -> dict[str, Any]:
    """The parameter file of a mission's nodes, on top of config/team.yaml; JSON is YAML.

    `shields`: parameters of each robot's shield; `prints`: fingerprint of its policy file; `trusted`: public
    keys; `scene`: what stands around. The mission is in `out`.
    """
    team, series = {"team": list(mission.names)}, {"series_dir": str(out / "series")}
    # Drones keep apart from drones, by agreement; from all other robots by where their bodies are.
    drones = [name for name, params in shields.items() if isinstance(params, ShieldParams)]
    record = {
        "bag": str(out / "bag"),
        "joints": any(len(member.joint_pos) for member in mission.team),
        "objects": list(mission.objects) or [""],
        "commands": own_topics(mission.command_names) or [""],
    }
    noise = {f"noise.{name}": float(value) for name, value in mission.noise.items()}
    nodes: dict[str, dict[str, Any]] = {
        "/simulated_robots": {**series, **noise, "mission": str(out / PLAN), "seed": mission.seed},
        "/recorder": {**team, **record},
        "/mission": {**team, "mission": str(out / PLAN)},
    }
    for member in mission.team:
        robot = {**series, "robot_type": member.robot, "base_pose": yaw_of(member.base_pose)}
        robot["trusted_keys"] = list(trusted) or [""]
        limits = asdict(shields[member.name]).items()
        nodes[f"/{member.name}/policy"] = {**robot, **team, "bundle": member.bundle}
        nodes[f"/{member.name}/shield"] = {
            **robot,
            "team": drones if member.name in drones else [member.name],
            "fingerprint": prints[member.name],
            "stop_dir": str(out / "stops"),
            "surroundings": surroundings_of(member, mission, scene),
            **{f"shield.{name}": list(v) if isinstance(v, tuple) else v for name, v in limits},
        }
    return {node: {"ros__parameters": values} for node, values in nodes.items()}


def surroundings_of(member: Member, mission: Mission, scene: Scene) -> str:
    """The parameter `surroundings` of the shield of `member`: the scene, and all robots of the team that do not fly.

    Of an arm those that fly too, but for who lands on what it holds: it is faster than they can make way for.
    """
    is_arm = link_rows(load_robot(member.robot)) is not None
    neighbours = tuple(
        Neighbour(other.name, other.robot, yaw_of(other.base_pose), other.name == member.lands_on)
        for other in mission.team
        if other is not member
        and (load_robot(other.robot).flight is None or (is_arm and other.lands_on != member.name))
    )
    return msgspec.json.encode(Surroundings(scene.of(member.name), neighbours)).decode()
