"""Programs that are captured while all kinds of things happen to them; what may not happen then, is judged."""
