"""Parameter files of the nodes."""
