"""How well a policy does, and whether its file may fly."""
