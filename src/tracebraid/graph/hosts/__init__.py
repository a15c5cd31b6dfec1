"""What the threads of a host wait for."""
