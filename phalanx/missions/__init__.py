"""What is flown for policy files: the mission of their task, when it succeeded, and its film."""
