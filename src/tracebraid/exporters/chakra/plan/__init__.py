"""What of a job is simulated: its ranks, groups and communication, in an order that no rank can block."""
