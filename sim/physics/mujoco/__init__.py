"""MuJoCo on CPU threads."""
