"""Repairs the files of recorders: valid JSON, complete, with their resources."""
