#pragma once

namespace tracebraid {

// PyTorch throws what a tensor class in Python raised, and leaves it set as this thread's Python error. Call this where
// the C++ exception is caught, or else the next Python call raises it. Takes Python's lock.
void clear_python_error();

}  // namespace tracebraid
