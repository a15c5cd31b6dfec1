// What a recording keeps for one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "bytes.h"
#include "chunk.h"
#include "identity.h"
#include "name_table.h"

namespace tracebraid {

// Buffers and caches, freed when the thread ends.
struct ThreadBuffers {
  explicit ThreadBuffers(NameTable& table) : names(table) {}

  Bytes record;  // the one being encoded
  NameCache names;
  IdentityCache identities;
};

// Outlives its thread. Three kinds of members, by who may touch them while recording is on; when it is over (after the
// grace period of epochs.h) all belong to the thread that ends the recording.
struct ThreadLog {
  ThreadLog(uint64_t log_index, uint64_t pytorch_tid) : index(log_index), tid(pytorch_tid) {}

  // Never change.
  const uint64_t index;  // among this recording's logs
  const uint64_t tid;    // PyTorch's number of the thread

  // Only the thread itself.
  uint64_t root = 0;           // its node; 0 until a function was entered
  std::vector<uint64_t> open;  // the rf_ids of its functions that have not ended
  std::unique_ptr<Chunk> chunk;
  std::unique_ptr<ThreadBuffers> buffers;
  ThreadLog* last_forward = nullptr;

  // Written by the thread, read by any: the node of the innermost open function, or the root. Relaxed: it is a hint for
  // other threads, and publishes nothing.
  std::atomic<uint64_t> innermost{0};

  // Written by others, read by the thread. The flag is set (release) after a push and read (acquire) without the mutex;
  // the mutex comes after Recorder::mutex_ in the lock order.
  std::atomic<bool> has_ended_elsewhere{false};
  std::mutex mutex;
  std::vector<uint64_t> ended_elsewhere;  // guarded by mutex: rf_ids of functions that another thread ended
};

}  // namespace tracebraid
