"""Figures that check a claim of a paper, each of minutes: `python -m benchmarks.papers.NAME`."""
