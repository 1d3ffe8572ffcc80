"""Algorithms that learn policies: each in one file, on the seam of `Algorithm`."""
