"""How work over many ranks runs: in this process, in a pool of processes, or on a Ray cluster."""
