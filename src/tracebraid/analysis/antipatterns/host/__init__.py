"""Anti-patterns in which the host is late with work for the device."""
