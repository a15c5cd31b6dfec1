"""Find what stops a simulator from running `.et` files to the end: faults in files, between ranks, and deadlocks."""
