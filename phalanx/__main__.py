"""`python -m phalanx` is the command."""

from phalanx.cli import main

main()
