"""What learns: networks, PPO, training with exact resume, export and evaluation."""
