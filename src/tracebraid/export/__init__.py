"""`LinkedTrace` to other formats."""
