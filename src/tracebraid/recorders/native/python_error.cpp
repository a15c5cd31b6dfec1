#include "python_error.h"

// Declared here, as Python's headers are not on every machine that runs Python; null where the process has no Python.
extern "C" {
__attribute__((weak)) int PyGILState_Ensure();
__attribute__((weak)) void PyGILState_Release(int state);
__attribute__((weak)) void PyErr_Clear();
}

namespace tracebraid {

void clear_python_error() {
  if (PyErr_Clear == nullptr) return;
  int state = PyGILState_Ensure();
  PyErr_Clear();
  PyGILState_Release(state);
}

}  // namespace tracebraid
