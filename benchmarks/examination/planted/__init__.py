"""Jobs made in code whose right answer is known."""
