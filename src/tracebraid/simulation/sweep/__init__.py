"""What a step would gain were each kind of work faster: every op, kernel, module, collective and latency."""
