"""What keeps a simulator from running `.et` files to the end: in each file, between ranks, and deadlocks."""
