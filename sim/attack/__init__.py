"""Attacks on the shield: simulated teams behind the object that flies their robots, with everything against them."""
