"""The dependency graph of a job: its codes, and the nouns that `graph/` builds and `simulation/` computes with."""
