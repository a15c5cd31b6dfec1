#pragma once

namespace tracebraid {

// What a tensor of a Python class threw when it was asked: PyTorch leaves it with Python, as the error of this thread.
// To be called where that is caught, lest it be raised by whatever runs next.
void forget_python_error();

}  // namespace tracebraid
