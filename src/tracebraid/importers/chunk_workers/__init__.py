"""The chunks of a large file, decoded in this process and in worker processes beside it; `parallel.py` is the way in."""
