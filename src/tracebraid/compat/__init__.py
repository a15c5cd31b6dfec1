"""Other tools' calls over Tracebraid's rooms, for scripts that were written for those tools."""
