"""What Ctrl-C does to the robots of a team, in words: drones land, arms brake, what stands on its feet stands on."""

from collections.abc import Collection, Mapping

from hardware.spec import RobotSpec

NAMED = 3  # robots of a kind; more are counted


def promise(specs: Mapping[str, RobotSpec], simulated: Collection[str]) -> str:
    """What each kind of robot does at Ctrl-C, by name, such as "cf1 lands, ur brakes and is held"."""
    return ", ".join(what for what, _ in _ends(specs, simulated, 0.0, 0.0))


def waits(specs: Mapping[str, RobotSpec], simulated: Collection[str], within_s: float, given_up_s: float) -> str:
    """The same, and for how long that is waited for.

    `within_s`: for one that comes to rest by itself, or is simulated. `given_up_s`: without a word of one on its feet.
    """
    return "; ".join(f"{what}{how_long}" for what, how_long in _ends(specs, simulated, within_s, given_up_s))


def stops(specs: Mapping[str, RobotSpec]) -> str:
    """What an emergency stop, as at another Ctrl-C, does to each kind of robot that has not come to rest, by name."""
    flies = [name for name, spec in specs.items() if spec.flight]
    held = [name for name, spec in specs.items() if spec.fixed_base and not spec.flight]
    stands = [name for name in specs if name not in (*flies, *held)]
    kinds = (
        (flies, "drones", ("falls, if in the air", "fall, if in the air")),
        (held, "arms", ("brakes at once", "brake at once")),
        (
            stands,
            "humanoids",
            ("goes limp, and falls if nothing carries it", "go limp, and fall if nothing carries them"),
        ),
    )
    return ", ".join(_what(names, kind, does) for names, kind, does in kinds if names)


def stopping(
    specs: Mapping[str, RobotSpec],
    simulated: Collection[str],
    left: Mapping[str, str],
    within_s: float,
    given_up_s: float,
) -> str:
    """What Ctrl-C does to each robot and what another one does, to follow on "stopping", see `waits` and `stops`.

    `left`: robots that neither moves, and what each is, such as "not armed"; nothing is promised of these.
    """
    moved = {name: spec for name, spec in specs.items() if name not in left}
    stay = {how: [name for name in left if left[name] == how] for how in left.values()}
    said = [waits(moved, simulated, within_s, given_up_s)] if moved else []
    said += [f"{_what(names, 'robots', ('is', 'are'))} {how}" for how, names in stay.items()]
    said += [f"Ctrl-C again is an emergency stop: {stops(moved)}"] if moved else []
    return "".join(f"; {each}" for each in said)


def _ends(
    specs: Mapping[str, RobotSpec], simulated: Collection[str], within_s: float, given_up_s: float
) -> list[tuple[str, str]]:
    flies = [name for name, spec in specs.items() if spec.flight]
    held = [name for name, spec in specs.items() if spec.fixed_base and not spec.flight]
    stands = [name for name in specs if name not in (*flies, *held)]
    real = [name for name in stands if name not in simulated]
    at_most = f", for {within_s:g} s at most"
    unheard = f"or stopped and given up, where it is not heard for {given_up_s:g} s"
    kinds = (
        (flies, "drones", ("lands", "land"), at_most),
        (held, "arms", ("brakes and is held", "brake and are held"), at_most),
        ([name for name in stands if name in simulated], "simulated humanoids", ("stands", "stand"), at_most),
        (
            real,
            "humanoids",
            ("stands until it is disarmed", "stand until they are disarmed"),
            f" (phalanx operate disarm {' '.join(real)}), {unheard}",
        ),
    )
    return [(_what(names, kind, does), how_long) for names, kind, does, how_long in kinds if names]


def _what(names: list[str], kind: str, does: tuple[str, str]) -> str:
    who = " and ".join(names) if len(names) <= NAMED else f"{len(names)} {kind}"
    return f"{who} {does[len(names) > 1]}"
