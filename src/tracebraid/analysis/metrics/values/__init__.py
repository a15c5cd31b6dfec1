"""Values of metrics with their intervals: ratios, quantiles, and what joins ranks."""
