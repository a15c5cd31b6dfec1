"""Questions about kernels and other work of devices: which take the time, and what launched them."""
