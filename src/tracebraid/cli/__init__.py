"""The command line: one command per file; only here are errors printed and exit codes set."""
