"""Compare two runs: ops matched by call site, steps as samples, differences that add up."""
