// Invariants that are checked in a debug build only (TRACEBRAID_NATIVE_DEBUG=1, see build.py). The standard `assert`
// is no use here: PyTorch's headers need NDEBUG.
#pragma once

#ifdef TRACEBRAID_NATIVE_DEBUG
#include <cstdio>
#include <cstdlib>

namespace tracebraid {
[[noreturn]] inline void fail_assertion(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: tracebraid: assertion failed: %s\n", file, line, condition);
  std::abort();
}
}  // namespace tracebraid

#define TRACEBRAID_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::tracebraid::fail_assertion(#condition, __FILE__, __LINE__))
#else
// The condition is compiled, so that it cannot rot, and not evaluated.
#define TRACEBRAID_ASSERT(condition) static_cast<void>(sizeof((condition) ? 1 : 0))
#endif
