"""Which process carries which nodes: policies in some hosts, shields in others, see `ros_nodes.nodes.host`."""

from collections.abc import Collection, Mapping, Sequence

ROBOTS_PER_HOST = 8  # what one Python process carries with time to spare
Placement = dict[str, list[str]]  # process -> its nodes, "namespace/kind"


def place_team(
    team: Sequence[str],
    policy_hosts: int | None = None,
    shield_hosts: int | None = None,
    own_policy: str = "",
    apart: Collection[str] = (),
) -> Placement:
    """Processes of a team's policies and shields, robots in turns, so that no process takes two neighbours along.

    By default a process for every `ROBOTS_PER_HOST` robots, and two for shields where there are two robots. As many
    hosts as robots is a process for each. The policy of `own_policy` is alone in one more process than `policy_hosts`.
    Robots `apart`, those with a driver, have shields by themselves unless `shield_hosts` is given: what is slow in the
    process of a device must not be another robot's.
    ValueError for a number of hosts that cannot be.
    """
    needed = -(-len(team) // ROBOTS_PER_HOST)
    for what, count in (("policy_hosts", policy_hosts), ("shield_hosts", shield_hosts)):
        if count is not None and not 1 <= count <= len(team):
            raise ValueError(f"{what} = {count}: from 1 to {len(team)}, the number of robots")
    alone = [name for name in team if name in apart and shield_hosts is None]
    others = [name for name in team if name not in alone]
    together = [name for name in team if name != own_policy]
    return {
        **_hosts(alone, "shield", len(alone)),
        **_hosts(others, "shield", shield_hosts or max(-(-len(others) // ROBOTS_PER_HOST), min(2, len(others)))),
        **_hosts([name for name in team if name == own_policy], "policy", 1),
        **_hosts(together, "policy", min(policy_hosts or needed, len(together))),
    }


def join_links(placed: Placement, links: Mapping[str, str]) -> Placement:
    """The shields of robots with one link in one process, the first that carries one of them: it alone can open it.

    `links`: by robot, for those that share one; see `hardware.drivers.shared_link`.
    """
    homes: dict[str, str] = {}
    found: Placement = {}
    for process, nodes in placed.items():
        for node in nodes:
            robot, _, kind = node.partition("/")
            link = links.get(robot, "") if kind == "shield" else ""
            home = homes.setdefault(link, process) if link else process
            found.setdefault(home, []).append(node)
    return found


def _hosts(team: Sequence[str], kind: str, count: int) -> Placement:
    """A host of one node is called after it."""
    found: Placement = {}
    for number in range(count if team else 0):
        robots = team[number::count]
        name = f"{robots[0]}_{kind}" if len(robots) == 1 else f"{kind}_host_{number + 1}"
        found[name] = [f"{robot}/{kind}" for robot in robots]
    return found
