"""Who flies a PX4: this driver, PX4's own failsafe, or a person or another program."""

from hardware.drivers.px4_messages import AUTO, LAND, OFFBOARD, mode_name
from hardware.drivers.px4_said import Said

OWN_LANDING = mode_name(AUTO << 16 | LAND << 24)


class Holder:
    """Known by what each HEARTBEAT says, which comes from the link's thread."""

    def __init__(self) -> None:
        self.is_ours = False  # whether this driver ever armed it; what another program flies is not ours to land
        self.is_taken = False  # whether somebody else has flown it since it was armed: PX4's own failsafe too
        self.is_other = False  # whether a person or another program flies it now

    def arms(self) -> None:
        """This driver is about to arm it."""
        self.is_ours, self.is_taken = True, False

    def hear(self, said: Said, is_arming: bool, has_landing: bool) -> None:
        """`has_landing`: whether AUTO.LAND, where it is in that, comes from this driver."""
        lands = has_landing and said.mode == OWN_LANDING
        if not said.is_armed or said.flies_itself:
            self.is_other = False
        elif said.mode == OFFBOARD:  # who gives it back has it still: no set-points are sent to it
            self.is_other = not self.is_ours or (self.is_other and self.is_taken)
        else:
            self.is_other = self.is_other or not lands
        is_elsewhere = said.is_armed and said.mode != OFFBOARD and not lands
        self.is_taken = self.is_taken or (is_elsewhere and not is_arming)
