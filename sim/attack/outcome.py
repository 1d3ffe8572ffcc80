"""What came of attacks: counts and extremes that add up."""

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Any

NEVER = float("inf")


@dataclass
class Outcome:
    """Of one flight or of many; measured where the bodies are, not where anybody believes them to be."""

    steps: int = 0  # shielded robot-steps
    violations: int = 0  # of them, those in which a guarantee did not hold
    margins: dict[str, float] = field(default_factory=dict)  # least to each guarantee, as a share of it: below 0 is a
    # violation
    changed: int = 0  # robot-steps in which the shield changed the policy's command
    held: int = 0  # robot-steps in which the shield flew instead of the policy
    most: dict[str, float] = field(default_factory=dict)  # by name with its unit, the largest of all flights
    broken: Counter[str] = field(default_factory=Counter)  # robot-steps by the guarantee that did not hold
    ended: Counter[str] = field(default_factory=Counter)  # robots by the mode that they ended in
    first: str = ""  # where the first violation was: enough to fly it again

    @property
    def least_margin(self) -> float:
        """To what is guaranteed, of all guarantees."""
        return min(self.margins.values(), default=NEVER)

    def add(self, other: "Outcome") -> None:
        """Take `other` in."""
        for name in ("steps", "violations", "changed", "held"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name, value in other.margins.items():
            self.margins[name] = min(self.margins.get(name, NEVER), value)
        for name, value in other.most.items():
            self.most[name] = max(self.most.get(name, -NEVER), value)
        self.broken.update(other.broken)
        self.ended.update(other.ended)
        self.first = self.first or other.first

    def as_json(self) -> dict[str, Any]:
        """Plain numbers; what was never measured is not in it."""
        return {
            f.name: dict(value) if isinstance(value, dict) else value
            for f in fields(self)
            for value in [getattr(self, f.name)]
        }

    @classmethod
    def of_json(cls, data: dict[str, Any]) -> "Outcome":
        """What `as_json` wrote, and before it named the guarantees that margins are of."""
        data = dict(data)
        least = data.pop("least_margin", None)
        margins = data.pop("margins", {} if least is None else {"guarantee": least})
        broken, ended = Counter(data.pop("broken")), Counter(data.pop("ended"))
        return cls(**data, margins=margins, broken=broken, ended=ended)
