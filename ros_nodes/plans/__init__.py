"""What is to be flown: missions, team files, courses, and which process carries which robot."""
