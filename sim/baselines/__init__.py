"""Controllers that nobody trained: what a learned policy has to beat."""
