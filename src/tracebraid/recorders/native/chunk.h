// A block of records of one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace tracebraid {

// Owned by one thread at a time, so it needs no lock: the recording thread until it hands the chunk over, then the
// queue, then the spill thread or the thread that reads the recording (chunk_handover.h).
struct Chunk {
  uint64_t thread = 0;  // the thread's index in the recording
  size_t used = 0;      // bytes
  size_t capacity = 0;  // bytes
  std::unique_ptr<uint8_t[]> data;
};

}  // namespace tracebraid
