"""Orders to one PX4 that end a flight: to land, to disarm as a person would ask for it, and by force."""

from hardware.drivers.px4_link import ACCEPTED, IN_PROGRESS, Px4Link
from hardware.drivers.px4_messages import AUTO, LAND
from hardware.drivers.px4_said import Said

SET_MODE, ARM = 176, 400  # MAV_CMD_DO_SET_MODE and _COMPONENT_ARM_DISARM
CUSTOM_MODE, EVEN_IN_THE_AIR = 1, 21196


def land(link: Px4Link) -> None:
    """In AUTO.LAND."""
    link.command(SET_MODE, CUSTOM_MODE, AUTO, LAND)


def cut(link: Px4Link) -> None:
    """Disarm it by force, also in the air."""
    link.command(ARM, 0, EVEN_IN_THE_AIR)


class Disarming:
    """Asks again and again; by force where PX4 denies it though it surely lies, or has never said whether it does."""

    def __init__(self) -> None:
        self._is_sure = False  # whether it was known when it was asked last: an older denial is one of in the air

    def ask(self, link: Px4Link, said: Said, now_s: float, may_force: bool) -> None:
        is_sure = may_force and said.may_lie(now_s)
        is_denied = link.result(ARM) not in (None, ACCEPTED, IN_PROGRESS)
        if is_denied and is_sure and self._is_sure:
            cut(link)
        else:
            self._is_sure = is_sure
            link.command(ARM, 0)
