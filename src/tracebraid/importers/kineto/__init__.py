"""A Kineto trace to a `Timeline`; `reader.py` is the way in."""
