"""What a shield promises, as tables of lines; the classes of robots fill them in."""

from dataclasses import dataclass

Lines = tuple[tuple[str, str], ...]  # what, and how much


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What one robot's shield promises. The numbers follow from its parameters and from what is assumed."""

    holds: Lines  # whatever is requested, while all that is assumed holds at once
    assumed: Lines
    margins: Lines  # what is left, computed from the two above
    outside: Lines  # what is not promised, and what happens then


TITLES = {
    "holds": "What holds, whatever is requested",
    "assumed": "... while all of this holds at once",
    "margins": "Margins, computed from these bounds and the parameters",
    "outside": "What is outside, and what happens then",
}
