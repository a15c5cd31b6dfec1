"""Anti-patterns between the ranks of a job."""
