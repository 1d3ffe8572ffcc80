"""What runs on the robot: the contract, the policy file, the runtime and the shield."""

import os

# Before it is imported: newer versions tell their vendor how they are used, and keep an identifier in the user's home.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
