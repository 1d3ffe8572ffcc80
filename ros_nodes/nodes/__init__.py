"""The nodes, one process each."""
