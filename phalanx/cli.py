"""Entry point of the `phalanx` command."""


def main() -> None:
    """Run the command line."""
