"""List and read files on disk or behind a URL through one interface."""
