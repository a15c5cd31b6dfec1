"""What the work of devices waits for."""
