"""Tests of answers, as they are shown."""
