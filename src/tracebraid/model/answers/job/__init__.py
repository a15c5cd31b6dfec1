"""Tables of answers about whole jobs."""
