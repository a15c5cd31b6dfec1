"""The training of transformers: sizes, layout of ranks, schedule, and the nodes of a stage."""
