"""Questions about launches, queues, copies and synchronisation: what host and device wait for each other for."""
