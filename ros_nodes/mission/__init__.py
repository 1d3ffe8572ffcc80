"""A mission: its plan, how it is carried out, and what came of it."""
