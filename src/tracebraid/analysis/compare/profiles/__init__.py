"""What is kept of a rank and of a run, to compare it with another."""
