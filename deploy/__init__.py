"""What runs on the robot: the contract, the policy file, the runtime and the shield."""
