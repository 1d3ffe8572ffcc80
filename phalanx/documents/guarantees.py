"""What shields guarantee, as tables of a document: `make docs` fills `docs/shield.md`."""

from deploy.shield.guarantee import TITLES
from deploy.shield.guarantees import make_guarantee
from hardware import load_robot
from phalanx.documents.markdown import table

MARK = "shield of "


def guarantee_part(name: str) -> str:
    """The tables of the robot that a mark `shield of ROBOT` names; ValueError for another mark or robot."""
    if not name.startswith(MARK):
        raise ValueError(f"mark {name!r} does not begin with {MARK!r}")
    guarantee = make_guarantee(load_robot(name.removeprefix(MARK)))
    return "\n".join(table((title, ""), getattr(guarantee, part)) for part, title in TITLES.items())
