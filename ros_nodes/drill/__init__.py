"""Faults on a simulated team in flight: what must happen, and what did."""
