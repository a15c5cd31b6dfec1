"""Questions about ops and kernels: which take the most time, and with which shapes."""
