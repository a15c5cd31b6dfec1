"""Blocks of memory: their lives, what they are used for, and how much of them is allocated when."""
