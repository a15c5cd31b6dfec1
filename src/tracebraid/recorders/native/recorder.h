// One recording: what its threads have seen so far. A process may have several at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/record_function.h>

#include "bytes.h"
#include "chunks.h"
#include "format.h"
#include "identity.h"
#include "names.h"
#include "values.h"

namespace tracebraid {

struct Options {
  std::string spill_path;
  size_t memory_bytes = 0;
  bool integral_ranges = false;
};

// What one thread needs while it lives.
struct Scratch {
  explicit Scratch(Names& names) : names(names) {}

  Bytes bytes;
  KnownNames names;
  SeenLately seen;
};

// What a recording knows of one thread. It outlives the thread.
struct ThreadLog {
  uint64_t number = 0;  // among this recording's threads
  uint64_t tid = 0;     // PyTorch's
  uint64_t root = 0;    // its node; 0 until an operator was entered
  std::vector<uint64_t> open;  // the rf_ids of its functions that have not ended
  std::unique_ptr<Chunk> chunk;
  std::unique_ptr<Scratch> scratch;
  ThreadLog* last_forward = nullptr;

  // What other threads may read or write:
  std::atomic<uint64_t> innermost{0};  // the node of what is entered now, or the root
  std::atomic<bool> has_ended_elsewhere{false};
  std::mutex mutex;
  std::vector<uint64_t> ended_elsewhere;  // rf_ids of operators of this thread that others ended
};

class Recorder {
 public:
  explicit Recorder(Options options);

  // What PyTorch's callbacks call, on any thread.
  void enter(const at::RecordFunction& function, ThreadLog*& log);
  void exit(const at::RecordFunction& function, ThreadLog*& log);
  // The thread is about to end.
  void retire(ThreadLog& log);

  // Once no thread can call any of these any more:
  void hand_in_everything();

  ChunkStore& store() { return store_; }
  const Names& names() const { return names_; }
  const std::vector<std::unique_ptr<ThreadLog>>& threads() const { return threads_; }

 private:
  ThreadLog& log_of_this_thread();
  uint64_t forward_parent(const at::RecordFunction& function, ThreadLog& log);
  // Whether it was there.
  bool forget(ThreadLog& log, uint64_t rf_id);
  void forget_ended_elsewhere(ThreadLog& log);
  // An operator ended that this thread did not begin.
  void tell_others(uint64_t rf_id);
  ThreadLog* find(uint64_t tid);
  void write_values(Bytes& out, Values values, size_t count, SeenLately& seen);
  void append(ThreadLog& log);

  const Options options_;
  Identities identities_;
  Names names_;
  ChunkStore store_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<ThreadLog>> threads_;
  std::unordered_map<uint64_t, ThreadLog*> by_tid_;
};

}  // namespace tracebraid
