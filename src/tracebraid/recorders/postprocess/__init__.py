"""What a recorder left, made a whole Execution Trace with the files that belong to it."""
