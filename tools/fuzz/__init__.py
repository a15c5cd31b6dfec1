"""A structure-aware fuzzer of everything that reads files: `python -m tools.fuzz`."""
