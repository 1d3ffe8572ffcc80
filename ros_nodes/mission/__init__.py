"""A mission as it is flown, and what came of it."""
