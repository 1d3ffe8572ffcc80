"""What `phalanx calibrate` works out of a robot's own measurements."""
