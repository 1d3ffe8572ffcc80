"""Projection of accelerations onto constraint rows: one robot with DAQP, a batch with torch."""
