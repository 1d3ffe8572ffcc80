"""What the code says of tasks, contracts, shields and models, as tables for documents and terminals."""
