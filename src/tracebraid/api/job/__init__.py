"""Questions about a whole job: what is taken of each rank, in one pass, and answered from all."""
