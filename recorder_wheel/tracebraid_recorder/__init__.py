"""Tracebraid's native recorder, compiled: a library for each version of torch, machine and state of the sources."""
