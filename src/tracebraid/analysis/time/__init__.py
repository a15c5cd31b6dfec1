"""Questions about time: steps, and what fills them."""
