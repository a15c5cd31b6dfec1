"""Parts of a rank's nodes."""
