"""Which ranks of a job stand for all: a sample by host and parallel group, from what is cheap to read."""
