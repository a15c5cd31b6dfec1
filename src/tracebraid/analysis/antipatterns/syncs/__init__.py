"""Anti-patterns in which the host waits for the device."""
