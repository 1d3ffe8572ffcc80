"""Fit the simulator to a recording of one robot: what its model's numbers are, how sure, and what cannot be seen."""
