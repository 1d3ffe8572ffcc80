"""The shield of arms and humanoids: bounds on joint targets, and hold or damp as the fallback."""
