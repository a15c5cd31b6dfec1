"""`LinkedTrace` to ET+: the Execution Trace with times, and every device event as a node under its op."""
