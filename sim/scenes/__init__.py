"""What robots stand in: several of them and the things around them as one MuJoCo model, and the ground."""
