"""Observation, reward and termination terms: small pure functions that tasks name and parametrise."""
