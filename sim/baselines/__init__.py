"""Controllers without training: what a learned policy has to beat."""
