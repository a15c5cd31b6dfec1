"""A rank's part in what is communicated."""
