"""The mission of a team file."""

from dataclasses import replace

import numpy as np

from hardware import load_robot
from ros_nodes.plans.course import WITHIN_M, Course
from ros_nodes.plans.mission import Member, Mission, Order, load_mission
from ros_nodes.plans.team import Robot, Team, TeamError

STANDS_S = 600.0  # how long a mission without orders is said to last


def team_mission(team: Team) -> Mission:
    """The mission of the file, that of its courses, or one without orders; the policies are those of the file."""
    robots = {robot.name: robot for robot in team.robots}
    if team.mission:
        mission = load_mission(team.mission)
        planned = (m for m in mission.team if m.name in robots)
        return replace(mission, team=tuple(_member(robots[m.name], m) for m in planned))
    members = tuple(_member(robot, None) for robot in team.robots)
    courses = {r.name: Course(np.array(r.goals), r.within_m or WITHIN_M) for r in team.robots if r.goals}
    first = Order(0.0, {name: {"goal_pos": course.goals[0]} for name, course in courses.items()})
    orders = (first,) if courses else ()
    return Mission(members, orders, STANDS_S, checks_s=(STANDS_S,), hold_s=1.0, courses=courses)


def _member(robot: Robot, planned: Member | None) -> Member:
    spec = load_robot(robot.type)
    x, y, z, yaw = robot.place
    pose = np.array([x, y, z, np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)])
    joint_pos = np.array(spec.home)
    if planned is not None:
        if planned.robot not in (robot.type, spec.name):
            raise TeamError(f"{robot.name} is of type {robot.type!r}, its mission is for {planned.robot!r}")
        base_pose = planned.base_pose if robot.base_pose is None else pose
        lands_on = robot.lands_on or planned.lands_on
        return replace(planned, robot=robot.type, bundle=robot.bundle, base_pose=base_pose, lands_on=lands_on)
    return Member(robot.name, robot.type, robot.group, pose, joint_pos, robot.bundle, robot.lands_on)
