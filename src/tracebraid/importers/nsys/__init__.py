"""An export of Nsight Systems to a `Timeline`; `reader.py` is the way in."""
