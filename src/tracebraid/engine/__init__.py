"""Run work over many ranks: in this process, in a pool of processes, or on a Ray cluster."""
