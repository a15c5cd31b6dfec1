"""The critical path of each step: found by `walk`, named by `segments`; slack of all activities; its stability."""
