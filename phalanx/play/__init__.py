"""Watching a policy, or a simple agent, in simulation: as text, picture, replay page or video."""
