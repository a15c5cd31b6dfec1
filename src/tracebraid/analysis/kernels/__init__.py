"""Questions about kernels and other work of devices: which take the time, of what sort, and what launched them."""
