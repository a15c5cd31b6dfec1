"""The commands of `tracebraid chakra`, a module each."""
