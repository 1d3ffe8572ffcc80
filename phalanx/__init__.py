"""The command: every subcommand is a few lines that call the packages beside it."""
