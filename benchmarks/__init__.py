"""How fast it is on this machine, as numbers that can be compared: medians, ratios of one run, cold start apart."""
