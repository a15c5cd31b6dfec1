"""What waits for what in a linked trace; `dependencies.py` is the way in, each kind has a file of its own."""
