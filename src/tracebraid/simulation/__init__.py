"""Times of a dependency graph computed anew from its work: by `replay`."""
