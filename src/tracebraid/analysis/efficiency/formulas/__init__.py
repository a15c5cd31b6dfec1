"""Rules that count FLOPs and bytes of ops, a module for each kind of work; `rules` puts them together."""
