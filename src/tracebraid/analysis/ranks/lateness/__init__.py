"""What made a rank late at a collective."""
