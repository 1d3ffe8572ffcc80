"""Simulated robots in place of hardware."""
