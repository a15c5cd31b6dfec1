"""Questions about efficiency: what ops compute and move, how near to the device's limits, and what is lost."""
