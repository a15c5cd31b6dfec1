"""Where files lie: on disk or behind a URL, listed and read through one interface."""
