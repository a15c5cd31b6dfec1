"""Shows a report in this machine's browser: a server for one reader."""
