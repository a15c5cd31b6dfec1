"""Measurements of Tracebraid beside its peers, and what makes large traces for them."""
