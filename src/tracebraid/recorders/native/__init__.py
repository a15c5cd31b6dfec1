"""Tracebraid's own recorder of Execution Traces: C++, and the Python that builds, loads and drives it."""
