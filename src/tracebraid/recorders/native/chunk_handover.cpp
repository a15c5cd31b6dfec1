#include "chunk_handover.h"

#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <system_error>

#include "assertions.h"

namespace tracebraid {
namespace {

// The spill thread must not run the program's signal handlers: it inherits this mask.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &previous_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t previous_{};
};

}  // namespace

ChunkQueue::ChunkQueue(std::string spill_path, size_t memory_bytes)
    : memory_bytes_(memory_bytes), file_(std::move(spill_path)) {
  // The first touch of a page costs more than the records that go into it, so some pages are touched now.
  for (size_t bytes = 0; bytes < std::min(kTouchedBytes, memory_bytes_ / 2); bytes += kChunkBytes) {
    free_.push_back(allocate(kChunkBytes));
    std::memset(free_.back()->data.get(), 0, kChunkBytes);
  }
}

ChunkQueue::~ChunkQueue() { join_spill_thread(); }

std::unique_ptr<Chunk> ChunkQueue::allocate(size_t capacity) {
  auto chunk = std::make_unique<Chunk>();
  chunk->data.reset(new uint8_t[capacity]);
  chunk->capacity = capacity;
  allocated_bytes_ += capacity;
  counts_.peak_bytes = std::max<uint64_t>(counts_.peak_bytes, allocated_bytes_);
  return chunk;
}

bool ChunkQueue::can_acquire() const {
  // When threads hold all chunks and none is full, no chunk would ever come back: the limit is exceeded then.
  bool none_comes_back = full_.empty() && spilling_ == 0;
  return !free_.empty() || allocated_bytes_ + kChunkBytes <= memory_bytes_ || none_comes_back;
}

std::unique_ptr<Chunk> ChunkQueue::acquire(uint64_t thread, size_t min_bytes) {
  std::unique_lock<std::mutex> lock(mutex_);
  std::unique_ptr<Chunk> chunk;
  if (min_bytes > kChunkBytes) {
    chunk = allocate(min_bytes);
  } else {
    if (!can_acquire()) {
      waiting_++;
      wake_spill_thread();
      changed_.wait(lock, [this] { return can_acquire(); });
      waiting_--;
    }
    if (free_.empty()) {
      chunk = allocate(kChunkBytes);
    } else {
      chunk = std::move(free_.back());
      free_.pop_back();
    }
  }
  TRACEBRAID_ASSERT(chunk->capacity >= min_bytes);
  chunk->used = 0;
  chunk->thread = thread;
  return chunk;
}

void ChunkQueue::hand_over(std::unique_ptr<Chunk> chunk) {
  TRACEBRAID_ASSERT(chunk->used <= chunk->capacity);
  std::lock_guard<std::mutex> lock(mutex_);
  counts_.recorded_bytes += chunk->used;
  full_bytes_ += chunk->capacity;
  full_.push_back(std::move(chunk));
  if (must_spill()) wake_spill_thread();
}

bool ChunkQueue::must_spill() const { return !full_.empty() && (waiting_ > 0 || full_bytes_ * 2 >= memory_bytes_); }

void ChunkQueue::wake_spill_thread() {
  if (!spill_thread_.joinable()) {
    SignalsBlocked blocked;
    spill_thread_ = std::thread([this] { spill_chunks(); });
  }
  changed_.notify_all();
}

void ChunkQueue::spill_chunks() {
  pthread_setname_np(pthread_self(), "tracebraid");
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_ending_ || must_spill(); });
    if (is_ending_) return;
    auto chunk = std::move(full_.front());
    full_.pop_front();
    full_bytes_ -= chunk->capacity;
    spilling_++;
    lock.unlock();
    if (spill_error_ == 0) spill_error_ = file_.write(*chunk);
    lock.lock();
    spilling_--;
    (spill_error_ == 0 ? counts_.spilled_bytes : counts_.lost_bytes) += chunk->used;
    if (chunk->capacity == kChunkBytes) {
      free_.push_back(std::move(chunk));
    } else {
      allocated_bytes_ -= chunk->capacity;
    }
    changed_.notify_all();
  }
}

void ChunkQueue::join_spill_thread() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  if (spill_thread_.joinable()) spill_thread_.join();
}

void ChunkQueue::flush(const std::function<void(const Chunk&)>& consume) {
  join_spill_thread();
  if (spill_error_ != 0) {
    throw std::system_error(spill_error_, std::generic_category(), "it cannot be written");
  }
  file_.read(consume);
  for (const auto& chunk : full_) consume(*chunk);
}

QueueCounts ChunkQueue::counts() {
  std::lock_guard<std::mutex> lock(mutex_);
  return counts_;
}

}  // namespace tracebraid
