"""The ranks of a job, linked with each other."""
