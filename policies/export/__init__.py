"""From a checkpoint to the policy file."""
