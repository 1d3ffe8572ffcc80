"""What `phalanx verify` found: in words, as tables, and as records in policy files."""
