"""Which kernels graphs run, and which ops they were captured from."""
