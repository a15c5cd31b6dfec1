"""The one room that knows torch: records both traces of a rank, and writes them whole or not at all."""
