"""Our C++, each with a twin in Python that is its oracle, and how libraries of C++ are built, trusted and loaded.

The constants say how the native reader is compiled. `hatch_build.py` runs this file alone, so it imports nothing.
"""

LIBRARY = "tracebraid_scanner.so"
SOURCE = "kineto_scan.cpp"
FLAGS = ["-std=c++17", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-ffp-contract=off"]
"""Floats are rounded step by step, as the Python reader rounds them."""
