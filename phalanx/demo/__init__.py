"""The whole way in one command, stage by stage."""
