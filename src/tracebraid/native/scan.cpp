// The functions by which Python scans. None throws: without memory a scan is null, a chunk is given back, and an array
// is -1 bytes long.
#include "scan.h"

#include <cstdint>
#include <cstdlib>

extern "C" {

__attribute__((visibility("default"))) void* tracebraid_scan_events(const char* declaration) {
  try {
    return tracebraid::kineto_scan(declaration).release();
  } catch (...) {
    return nullptr;
  }
}

__attribute__((visibility("default"))) void* tracebraid_scan_nodes() {
  try {
    return tracebraid::node_scan().release();
  } catch (...) {
    return nullptr;
  }
}

__attribute__((visibility("default"))) void tracebraid_scan_free(void* scan) {
  delete static_cast<tracebraid::Scan*>(scan);
}

__attribute__((visibility("default"))) int tracebraid_scan_add(void* scan, const void* data, int64_t size) {
  try {
    return static_cast<tracebraid::Scan*>(scan)->add(static_cast<const tracebraid::Byte*>(data), size) ? 1 : 0;
  } catch (...) {
    return 0;
  }
}

__attribute__((visibility("default"))) int64_t tracebraid_scan_take(void* scan, int what, int of, void** items) {
  try {
    return static_cast<tracebraid::Scan*>(scan)->take(what, of, items);
  } catch (...) {
    return -1;
  }
}

__attribute__((visibility("default"))) void tracebraid_release(void* items) { free(items); }
}
