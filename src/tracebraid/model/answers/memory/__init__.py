"""Tables of answers about memory."""
