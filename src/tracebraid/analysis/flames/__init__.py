"""Flame graphs: stacks merged by names."""
