// Where a thread's records are handed over. A thread fills a chunk that no other thread touches; a full chunk goes into
// the queue here, and an empty one comes back.
//
//   recording thread            ChunkQueue                 spill thread
//     acquire()      <-------     free_     <----------      (chunk is empty again)
//     ...fill it
//     hand_over()    ------->     full_     ---------->      SpillFile
//
// The spill thread is started when full chunks fill half of the memory limit. A thread that needs a chunk when the
// limit is reached waits for the spill thread: no record is dropped.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "chunk.h"
#include "spill_file.h"

namespace tracebraid {

struct QueueCounts {
  uint64_t recorded_bytes = 0;
  uint64_t spilled_bytes = 0;
  uint64_t peak_bytes = 0;
  uint64_t lost_bytes = 0;
};

// Shared by the recording threads, the spill thread and the thread that ends the recording.
//
// mutex_ is a leaf of the lock order (recorder.h): no other mutex is taken while it is held, and the file is written
// without it.
class ChunkQueue {
 public:
  static constexpr size_t kChunkBytes = size_t{64} * 1024;          // about a thousand operators
  static constexpr size_t kTouchedBytes = size_t{4} * 1024 * 1024;  // 64 chunks: those of some threads' first second

  ChunkQueue(std::string spill_path, size_t memory_bytes);
  ~ChunkQueue();
  ChunkQueue(const ChunkQueue&) = delete;
  ChunkQueue& operator=(const ChunkQueue&) = delete;

  // An empty chunk of at least that capacity. Waits while the memory limit is reached and a chunk is being spilled.
  std::unique_ptr<Chunk> acquire(uint64_t thread, size_t min_bytes);
  void hand_over(std::unique_ptr<Chunk> chunk);

  // Gives all chunks that were handed over, those of a thread in their order. Call it once, when no thread records.
  // Throws std::system_error where a chunk could not be spilled.
  void flush(const std::function<void(const Chunk&)>& consume);

  QueueCounts counts();

 private:
  // These four are called with mutex_ held.
  bool can_acquire() const;
  bool must_spill() const;
  void wake_spill_thread();
  std::unique_ptr<Chunk> allocate(size_t capacity);

  void spill_chunks();  // the spill thread's function
  void join_spill_thread();

  const size_t memory_bytes_;
  // Used by the spill thread alone until it is joined, then by the thread that ends the recording.
  SpillFile file_;
  std::atomic<int> spill_error_{0};  // an errno; written by the spill thread

  std::mutex mutex_;
  // Guarded by mutex_:
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Chunk>> full_;
  std::vector<std::unique_ptr<Chunk>> free_;
  size_t full_bytes_ = 0;
  size_t allocated_bytes_ = 0;
  size_t spilling_ = 0;  // chunks that the spill thread is writing
  size_t waiting_ = 0;   // threads in acquire()
  bool is_ending_ = false;
  QueueCounts counts_;
  std::thread spill_thread_;  // started under mutex_, joined without it
};

}  // namespace tracebraid
