// One recording: what its threads have entered and left so far. A process may have several at once.
#pragma once

#include <ATen/record_function.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "bytes.h"
#include "chunk_handover.h"
#include "identity.h"
#include "name_table.h"
#include "thread_log.h"
#include "value_encoder.h"

namespace tracebraid {

struct Options {
  std::string spill_path;
  size_t memory_bytes = 0;
  bool integral_ranges = false;
  std::unordered_set<std::string> saved_ops;  // of these the inputs of integers are written to files
  std::string saved_prefix;                   // what the names of those begin with
};

// Shared by all threads that record and the thread that ends the recording, which frees it after a grace period
// (epochs.h).
//
// The lock order of the native recorder, first to last; a thread never takes one that comes before one it holds:
//   slots_mutex (slots.h)         never taken inside a recorder
//   PyTorch's lock of callbacks   taken by at::...Callback under slots_mutex
//   Recorder::mutex_
//   ThreadLog::mutex
// Leaves, under which no other mutex is taken:
//   epochs.cpp's, NameTable's, Identities', ChunkQueue's
// Python's lock is never taken under any of them; inside a recorder it is taken without one (python_error.cpp, tensors
// whose class is written in Python).
class Recorder {
 public:
  explicit Recorder(Options options);

  // Called by PyTorch's callbacks, on any thread. `own_log` is the thread's, or null until it has one.
  void enter(const at::RecordFunction& function, ThreadLog*& own_log);
  void exit(const at::RecordFunction& function, ThreadLog*& own_log);
  // Called by a thread that is about to end: hands its chunk over and frees its buffers.
  void retire(ThreadLog& log);

  // Called once no thread can call any of the above:
  void retire_all();

  ChunkQueue& chunks() { return chunks_; }
  const NameTable& names() const { return names_; }
  const std::vector<std::unique_ptr<ThreadLog>>& threads() const { return threads_; }

 private:
  ThreadLog& log_of_this_thread();
  ThreadLog* find_log(uint64_t tid);
  uint64_t forward_parent(const at::RecordFunction& function, ThreadLog& log);
  // Removes a function from those that are open. False where it is not among them.
  static bool close_function(ThreadLog& log, uint64_t rf_id);
  static void close_ended_elsewhere(ThreadLog& log);
  // A function ended on a thread that did not begin it.
  void notify_other_threads(uint64_t rf_id);
  void write_values(Bytes& out, Values values, size_t count, IdentityCache& cache);
  void append_record(ThreadLog& log);

  const Options options_;
  Identities identities_;
  NameTable names_;
  ChunkQueue chunks_;
  std::mutex mutex_;
  // Guarded by mutex_. Logs are added and never removed, so a pointer to one stays valid without it.
  std::vector<std::unique_ptr<ThreadLog>> threads_;
  std::unordered_map<uint64_t, ThreadLog*> log_by_tid_;
};

}  // namespace tracebraid
