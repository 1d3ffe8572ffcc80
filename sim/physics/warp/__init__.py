"""MuJoCo Warp."""
