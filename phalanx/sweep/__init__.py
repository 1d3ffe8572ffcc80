"""Many runs of a command: which ones, in which processes or on which cluster, and what came of them."""
