"""Two runs against each other: ops matched by where they are called, steps as samples, differences that add up."""
