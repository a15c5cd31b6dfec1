"""The queues between host and device."""
