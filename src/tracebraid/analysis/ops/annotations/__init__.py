"""Time by annotation."""
