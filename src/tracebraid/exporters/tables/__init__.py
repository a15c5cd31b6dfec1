"""Tables of all ranks in files that other programs read: a module for each format."""
