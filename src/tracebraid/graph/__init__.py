"""`DependencyGraph`: the part of each rank (`rank_graph`) by `hosts/` and `devices/`, joined in `joining/`."""
