"""Our C++, each with a twin in Python that is its oracle, and how libraries of C++ are built, trusted and loaded."""
