"""What there is: tasks, robots and randomisation, described from the code that defines them."""
