"""How Tracebraid starts Python processes that work for it: nothing of the working folder runs in them."""
