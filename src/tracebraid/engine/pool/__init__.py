"""A pool of worker processes on this machine; `process_pool.py` is the way in."""
