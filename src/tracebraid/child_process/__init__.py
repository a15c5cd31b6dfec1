"""Start Python worker processes that import nothing from the working folder."""
