"""How much of a job's time stragglers cost: its steps against those in which the same operations take equally long."""
