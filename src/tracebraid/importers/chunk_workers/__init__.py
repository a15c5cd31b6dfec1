"""The chunks of a large file, decoded here and in worker processes beside this one; `parallel.py` is the way in."""
