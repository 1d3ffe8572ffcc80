"""Training: rollouts, updates, logs, checkpoints and exact resume."""
