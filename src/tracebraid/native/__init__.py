"""Our C++, each with a twin in Python that is its oracle, and how libraries of C++ are built, trusted and loaded.

The constants say how the native library is compiled. `hatch_build.py` runs this file alone, so it imports nothing.
"""

LIBRARY = "tracebraid_native.so"
SOURCES = (
    "scan.cpp",
    "kineto_scan.cpp",
    "node_scan.cpp",
    "graph_loops.cpp",
    "simulation_loops.cpp",
    "chakra_loops.cpp",
    "play_loops.cpp",
    "wire_loops.cpp",
)
FLAGS = [
    *("-std=c++17", "-O3", "-fPIC", "-shared", "-fvisibility=hidden"),
    *("-ffp-contract=off", "-fwrapv", "-DNDEBUG"),
]
"""Floats are rounded step by step, as Python rounds them, and sums beyond 64 bits wrap around, as those of numpy do."""
