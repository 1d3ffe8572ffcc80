"""What every node shares: lifecycle, loop, processes, scheduling."""
