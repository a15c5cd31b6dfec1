"""Match the members of collectives across ranks."""
