"""Questions about memory: how much is allocated when, by what, what for, and what holds it."""
