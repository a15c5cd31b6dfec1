"""Tests of what the model says of collectives."""
