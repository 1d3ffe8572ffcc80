"""A person's side: arming, starting and stopping robots, commands, and what they say of themselves."""
