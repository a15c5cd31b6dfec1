"""The order of advice: what each saves at most, and what of that no other saves."""
