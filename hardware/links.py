"""The links of an arm as capsules, from its MJCF's own collision shapes; NumPy arrays and torch tensors alike.

A link is what moves with one hinge; link 0 is the base. What sits on slides, the fingers of a gripper, belongs to the
link that carries it, with the slides in the middle of their range and half of that range added to every radius.
"""

import xml.etree.ElementTree as ET
from dataclasses import dataclass

import numpy as np

from hardware.kinematics import UNREAD, check_file, numbers, unit
from hardware.rotation import as_like, namespace_of, rotate
from hardware.spec import RobotSpec
from hardware.types import Array

_SPACING = 1.2  # of a capsule's radius, between the spheres that cover it


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """C capsules on L links, all but the first of which a channel of the spec moves; K spheres cover the capsules.

    A link's pose in the one before it is homogeneous, and linear in 1, the sine and the cosine of its hinge's angle.
    """

    names: tuple[str, ...]  # (L) body of each link
    parent: tuple[int, ...]  # (L - 1) of every link but the base
    angles: np.ndarray  # (U, 3 (L - 1)) from channels to three angles a hinge, of which ...
    phase: np.ndarray  # (3 (L - 1)) rad, this ahead, the sines are 1 and the sine and the cosine of the hinge's
    turning: np.ndarray  # (L - 1, 3, 16): what 1, sine and cosine are multiplied by
    link: np.ndarray  # (C) link of each capsule
    finger: np.ndarray  # (C) bool, whether it sits on a slide
    ends: np.ndarray  # (C, 2, 3) m, in the link
    radius: np.ndarray  # (C) m
    sphere_of: np.ndarray  # (K) capsule that a sphere is of
    sphere_radius: np.ndarray  # (K) m
    spheres: np.ndarray  # (K, 2 C): from what `place` returns to the spheres' centres
    points: np.ndarray  # (6 C, 16 (L - 1)): from the poses of all links but the base to what `place` returns

    def place(self, pos: Array) -> Array:
        """(3, 2 C, N) m in the base body: first ends of the capsules, and from each the way to the second end.

        `pos` (N, U) rad is in the order of the spec's channels. Poses come last: one call of NumPy takes about as long
        for ten short rows as for a long one.
        """
        xp = namespace_of(pos)
        turn = xp.sin(pos @ as_like(self.angles, pos) + as_like(self.phase, pos))
        turn = turn.reshape(-1, len(self.parent), 3).swapaxes(0, 1)
        steps = (turn @ as_like(self.turning, pos)).reshape(len(self.parent), -1, 4, 4)
        poses: list[Array] = []
        for step, parent in zip(steps, self.parent, strict=True):
            poses.append(poses[parent - 1] @ step if parent else step)
        flat = xp.concat([pose.reshape(-1, 16) for pose in poses], axis=-1)
        return (as_like(self.points, pos) @ flat.mT).reshape(3, 2 * len(self.radius), -1)

    def levers(self) -> np.ndarray:
        """(C, U) m by which a capsule's points move at most per rad of a channel, in any pose.

        The way from a hinge's axis over the hinges that follow to the capsule is never longer than all of its parts.
        """
        levers = np.zeros((len(self.link), len(self.angles)))
        still, sine, cosine = np.moveaxis(self.turning.reshape(-1, 3, 4, 4), 1, 0)
        for number, on in enumerate(self.link):
            points, longest = np.c_[self.ends[number], np.ones(2)].T, 0.0  # (4, 2) in the link `on`, or in one before
            while on:
                turns = sine[on - 1]  # a turn about the axis moves a point by its distance from it
                away = np.linalg.norm(turns[:3] @ points, axis=0).max()
                levers[number] += (away + longest) * self.angles[:, 3 * on - 2]
                middle = np.linalg.lstsq(turns[:3, :3], -turns[:3, 3])[0]
                longest += np.linalg.norm(points[:3] - middle[:, None], axis=0).max()
                points = (still[on - 1] + cosine[on - 1]) @ np.array([[*middle, 1.0]]).T
                on = self.parent[on - 1]
        return levers


def load_links(spec: RobotSpec) -> Links | None:
    """The links of an arm that is bolted down; None where its MJCF has no collision shapes.

    Raises ValueError for what the MJCF lacks, or has and is not read here.
    """
    root = ET.parse(spec.mjcf).getroot()
    check_file(spec, root)
    base = root.find(f"worldbody//body[@name='{spec.base_body}']")
    if base is None:
        raise ValueError(f"robot {spec.name!r}: no body {spec.base_body!r} in {spec.mjcf.name}")
    found = _Found(spec, {e.get("class", ""): g for e in root.iter("default") if (g := e.find("geom")) is not None})
    found.body(base, 0, np.eye(4), 0.0)
    links, capsules = found.links, found.capsules
    if not links or not capsules:
        return None
    angles = np.zeros((len(spec.channels), len(links), 3))
    angles[[each[2] for each in links], np.arange(len(links)), 1:] = 1.0
    link = np.array([each[0] for each in capsules], dtype=np.int64)
    ends = np.array([each[1] for each in capsules]).reshape(-1, 2, 3)
    radius = np.array([each[2] for each in capsules])
    way = ends[:, 1] - ends[:, 0]
    length = np.linalg.norm(way, axis=-1)
    count = np.ceil(length / (_SPACING * radius)).astype(int)
    sphere_of = np.repeat(np.arange(len(count)), count + 1)
    spheres = np.zeros((len(sphere_of), 2 * len(count)))
    spheres[np.arange(len(sphere_of)), sphere_of] = 1.0
    share = np.concatenate([np.linspace(0.0, 1.0, n + 1) for n in count])
    spheres[np.arange(len(sphere_of)), len(count) + sphere_of] = share
    half = 0.5 * length / np.maximum(count, 1)
    # What the base carries stands in its own frame: a homogeneous pose has a 1 in its corner to multiply it by.
    points = np.zeros((3, 2, len(link), len(links) + 1, 4, 4))
    for number, on in enumerate(link):
        for axis in range(3):
            if on:
                points[axis, :, number, on, axis, :3] = ends[number, 0], way[number]
                points[axis, 0, number, on, axis, 3] = 1.0
            else:
                points[axis, :, number, 1, 3, 3] = ends[number, 0, axis], way[number, axis]
    return Links(
        names=(spec.base_body, *(each[0] for each in links)),
        parent=tuple(each[1] for each in links),
        angles=angles.reshape(len(spec.channels), -1),
        phase=np.tile([0.5 * np.pi, 0.0, 0.5 * np.pi], len(links)),
        turning=np.array([each[3:] for each in links]).reshape(-1, 3, 16),
        link=link,
        finger=np.array([each[3] for each in capsules]),
        ends=ends,
        radius=radius,
        sphere_of=sphere_of,
        sphere_radius=np.hypot(radius, half)[sphere_of],
        spheres=spheres,
        points=points[:, :, :, 1:].reshape(6 * len(link), -1),
    )


def as_index(values: np.ndarray, like: Array) -> Array:
    """Indices for arrays of the kind and device of `like`."""
    return values if isinstance(like, np.ndarray) else namespace_of(like).asarray(values, device=like.device)


class _Found:
    """What a walk over the bodies finds."""

    def __init__(self, spec: RobotSpec, defaults: dict[str, ET.Element]) -> None:
        self.spec, self.defaults = spec, defaults
        self.links: list[tuple[str, int, int, np.ndarray, np.ndarray, np.ndarray]] = []
        self.capsules: list[tuple[int, np.ndarray, float, bool]] = []  # link, ends, radius, finger

    def body(self, body: ET.Element, link: int, pose: np.ndarray, slack: float) -> None:
        """A body at `pose` in `link`, which slides may move by up to `slack` m to either side."""
        for joint in body.findall("joint"):
            if joint.get("type", "hinge") == "slide":
                pose, beyond = slid(pose, joint)
                slack += beyond
                continue
            parts = hinge_parts(pose, joint)
            if (name := joint.get("name", "")) not in self.spec.channel_names:
                raise ValueError(f"robot {self.spec.name!r}: joint {name!r} moves a link, and no channel positions it")
            channel = self.spec.channel_names.index(name)
            self.links.append((body.get("name", ""), link, channel, *parts))
            link, pose = len(self.links), np.eye(4)
        first = len(self.capsules)
        for geom in body.findall("geom"):
            self.geom(geom, link, pose, slack)
        if slack and len(self.capsules) > first + 1:  # of a finger's parts one
            self.capsules[first:] = [_around(self.capsules[first:])]
        for child in body.findall("body"):
            self.body(child, link, pose @ placed(child), slack)

    def geom(self, geom: ET.Element, link: int, pose: np.ndarray, slack: float) -> None:
        """The capsule that a collision shape just fits into; a visual one is passed over."""
        default = self.defaults.get(geom.get("class", ""))
        element = ET.Element("geom", {**(default.attrib if default is not None else {}), **geom.attrib})
        if element.get("contype") == "0" and element.get("conaffinity") == "0":
            return
        kind, size = element.get("type", "sphere"), numbers(element, "size", "0")
        axis, radius, half = 2, size[0], size[1] if len(size) > 1 else 0.0
        if kind == "box":
            axis = int(size.argmax())
            radius, half = float(np.linalg.norm(np.delete(size, axis))), size[axis]
        elif kind == "sphere":
            half = 0.0
        elif kind not in ("capsule", "cylinder"):  # a cylinder's rims touch the caps of the same length
            name = f"robot {self.spec.name!r}: geom {element.get('name', '')!r}"
            raise ValueError(f"{name} is a {kind}; links are read from capsules, boxes, cylinders and spheres")
        if element.get("fromto"):
            ends = numbers(element, "fromto", "").reshape(2, 3)
        else:
            along = half * np.eye(3)[axis]
            ends = (placed(element) @ np.array([[*along, 1.0], [*-along, 1.0]]).T).T[:, :3]
        ends = ends @ pose[:3, :3].T + pose[:3, 3]
        self.capsules.append((link, ends, float(radius) + slack, slack > 0.0))


def _around(capsules: list[tuple[int, np.ndarray, float, bool]]) -> tuple[int, np.ndarray, float, bool]:
    """A capsule with all of the others in it, along the longest way through their axes."""
    points = np.concatenate([ends for _, ends, _, _ in capsules])
    middle = points.mean(0)
    along = np.linalg.svd(points - middle)[2][0]
    share = (points - middle) @ along
    aside = np.linalg.norm(points - middle - share[:, None] * along, axis=-1)
    radius = float((aside + np.repeat([radius for _, _, radius, _ in capsules], 2)).max())
    return capsules[0][0], middle + np.array([[share.min()], [share.max()]]) * along, radius, True


def hinge_parts(pose: np.ndarray, joint: ET.Element) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What 1, sine and cosine of a hinge's angle are multiplied by (4, 4), in sum the pose behind it; `pose` before."""
    (x, y, z), place = unit(numbers(joint, "axis", "0 0 1")), numbers(joint, "pos", "0 0 0")
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    # The body turns about `place`: to it, turn, and back.
    there, back = _pose(np.eye(3), place), _pose(np.eye(3), -place)
    turns = (np.eye(3) + cross @ cross, 1.0), (cross, 0.0), (-cross @ cross, 0.0)
    still, sine, cosine = (pose @ there @ _pose(turn, np.zeros(3), corner) @ back for turn, corner in turns)
    return still, sine, cosine


def slid(pose: np.ndarray, joint: ET.Element) -> tuple[np.ndarray, float]:
    """The pose (4, 4) behind a slide in the middle of its range, and by how much m that reaches to either side."""
    low, high = numbers(joint, "range", "0 0")
    middle = 0.5 * (low + high) - float(joint.get("ref", "0"))
    return pose @ _pose(np.eye(3), middle * unit(numbers(joint, "axis", "0 0 1"))), 0.5 * (high - low)


def _pose(turn: np.ndarray, pos: np.ndarray, corner: float = 1.0) -> np.ndarray:
    pose = np.zeros((4, 4))
    pose[:3, :3], pose[:3, 3], pose[3, 3] = turn, pos, corner
    return pose


def placed(element: ET.Element) -> np.ndarray:
    """Pose (4, 4) of a body or shape in the body that it is in."""
    if unread := sorted(UNREAD.intersection(element.keys())):
        name = f"{element.tag} {element.get('name', '')!r}"
        raise ValueError(f"{name} has {unread[0]!r}; links are read from pos, quat and fromto only")
    quat = unit(numbers(element, "quat", "1 0 0 0"))
    return _pose(rotate(quat, np.eye(3)).T, numbers(element, "pos", "0 0 0"))
