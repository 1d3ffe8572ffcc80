"""What tasks of the same robot share."""
