// Where records are kept until they are written as JSON: chunks of memory, and beyond a limit a file.
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

namespace tracebraid {

// Some records of one thread. Only that thread writes to it, and only until it hands it in.
struct Chunk {
  uint64_t thread = 0;  // the thread's number among those recorded
  size_t used = 0;
  size_t capacity = 0;
  std::unique_ptr<uint8_t[]> data;
};

struct StoreCounts {
  uint64_t recorded_bytes = 0;
  uint64_t spilled_bytes = 0;
  uint64_t peak_bytes = 0;
  uint64_t lost_bytes = 0;
};

// Threads take empty chunks and hand in full ones. When those fill half of the memory, a thread starts that writes
// them to a file without a name beside the trace. Who needs a chunk when all memory is in use waits for it.
class ChunkStore {
 public:
  static constexpr size_t kChunkBytes = 64 * 1024;
  static constexpr size_t kReadyBytes = 4 * 1024 * 1024;

  ChunkStore(std::string spill_path, size_t memory_bytes);
  ~ChunkStore();

  std::unique_ptr<Chunk> take(uint64_t thread, size_t at_least);
  void hand_in(std::unique_ptr<Chunk> chunk);

  // Gives all chunks that were handed in, those of a thread in their order. To be called once, at the end.
  void read(const std::function<void(const Chunk&)>& take_chunk);

  // Why the file could not be written: an errno, or 0.
  int failure() const { return failure_.load(); }
  StoreCounts counts();

 private:
  // Under the mutex:
  bool must_write() const;
  void wake_writer();

  void write_chunks();
  void spill(const Chunk& chunk);
  void end_writer();
  std::unique_ptr<Chunk> allocate(size_t capacity);

  const std::string spill_path_;
  const size_t memory_bytes_;
  int spill_ = -1;
  std::atomic<int> failure_{0};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Chunk>> full_;
  std::vector<std::unique_ptr<Chunk>> empty_;
  size_t full_bytes_ = 0;
  size_t allocated_bytes_ = 0;
  size_t being_written_ = 0;
  size_t waiting_ = 0;
  bool ending_ = false;
  StoreCounts counts_;
  std::thread writer_;
};

}  // namespace tracebraid
