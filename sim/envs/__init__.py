"""The environment: a team in W parallel worlds, step by step."""
