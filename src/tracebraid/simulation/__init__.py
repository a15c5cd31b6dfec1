"""Replay a dependency graph with changed durations, latencies or edges.

- `replay` computes the times of a graph from its work; `replay_many` those of many scenarios at once; `step_times` says
  when steps start and end in them.
- `changes/`: a change makes of a graph another; `what_if` compares the two. `interference` slows kernels beside
  communication.
- `sweep/`: what each kind of work would bring; `stragglers/`: what unequal ranks cost.
- `reproduction`: how well a replay without measured starts meets the measured times, with residuals by
  `residual_choice`, learned in `residual_model`.
"""
