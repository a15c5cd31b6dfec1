#include "chunks.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <pthread.h>
#include <sys/uio.h>
#include <unistd.h>

namespace tracebraid {
namespace {

struct SpillHead {
  uint64_t thread;
  uint64_t bytes;
};

int write_all(int file, const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    ssize_t written = ::write(file, at, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    at += written;
    size -= static_cast<size_t>(written);
  }
  return 0;
}

bool read_all(int file, void* data, size_t size, off_t& offset) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    ssize_t got = ::pread(file, at, size, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    offset += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

// The program's signals are not for the writer.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

ChunkStore::ChunkStore(std::string spill_path, size_t memory_bytes)
    : spill_path_(std::move(spill_path)), memory_bytes_(memory_bytes) {
  // Memory that is touched for the first time costs more than what is recorded into it: some is touched now.
  for (size_t bytes = 0; bytes < std::min(kReadyBytes, memory_bytes_ / 2); bytes += kChunkBytes) {
    empty_.push_back(allocate(kChunkBytes));
    std::memset(empty_.back()->data.get(), 0, kChunkBytes);
  }
}

ChunkStore::~ChunkStore() {
  end_writer();
  if (spill_ >= 0) ::close(spill_);
}

std::unique_ptr<Chunk> ChunkStore::allocate(size_t capacity) {
  auto chunk = std::make_unique<Chunk>();
  chunk->data.reset(new uint8_t[capacity]);
  chunk->capacity = capacity;
  allocated_bytes_ += capacity;
  if (allocated_bytes_ > counts_.peak_bytes) counts_.peak_bytes = allocated_bytes_;
  return chunk;
}

std::unique_ptr<Chunk> ChunkStore::take(uint64_t thread, size_t at_least) {
  std::unique_lock<std::mutex> lock(mutex_);
  std::unique_ptr<Chunk> chunk;
  if (at_least > kChunkBytes) {
    chunk = allocate(at_least);
  } else {
    // Where threads hold all chunks and none is full, waiting would not end.
    auto can_go_on = [&] {
      return !empty_.empty() || allocated_bytes_ + kChunkBytes <= memory_bytes_ ||
          (full_.empty() && being_written_ == 0);
    };
    if (!can_go_on()) {
      waiting_++;
      wake_writer();
      changed_.wait(lock, can_go_on);
      waiting_--;
    }
    if (empty_.empty()) {
      chunk = allocate(kChunkBytes);
    } else {
      chunk = std::move(empty_.back());
      empty_.pop_back();
    }
  }
  chunk->used = 0;
  chunk->thread = thread;
  return chunk;
}

void ChunkStore::hand_in(std::unique_ptr<Chunk> chunk) {
  std::lock_guard<std::mutex> lock(mutex_);
  counts_.recorded_bytes += chunk->used;
  full_bytes_ += chunk->capacity;
  full_.push_back(std::move(chunk));
  if (must_write()) wake_writer();
}

bool ChunkStore::must_write() const {
  return !full_.empty() && (waiting_ > 0 || full_bytes_ * 2 >= memory_bytes_);
}

void ChunkStore::wake_writer() {
  if (!writer_.joinable()) {
    SignalsBlocked blocked;
    writer_ = std::thread([this] { write_chunks(); });
  }
  changed_.notify_all();
}

void ChunkStore::write_chunks() {
  pthread_setname_np(pthread_self(), "tracebraid");
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ending_ || must_write(); });
    if (ending_) return;
    auto chunk = std::move(full_.front());
    full_.pop_front();
    full_bytes_ -= chunk->capacity;
    being_written_++;
    lock.unlock();
    spill(*chunk);
    lock.lock();
    being_written_--;
    if (failure_) {
      counts_.lost_bytes += chunk->used;
    } else {
      counts_.spilled_bytes += chunk->used;
    }
    if (chunk->capacity == kChunkBytes) {
      empty_.push_back(std::move(chunk));
    } else {
      allocated_bytes_ -= chunk->capacity;
    }
    changed_.notify_all();
  }
}

void ChunkStore::spill(const Chunk& chunk) {
  if (failure_) return;
  if (spill_ < 0) {
    spill_ = ::open(spill_path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (spill_ < 0) {
      failure_ = errno;
      return;
    }
    // Without a name it is gone with the process, however that ends.
    ::unlink(spill_path_.c_str());
  }
  SpillHead head{chunk.thread, chunk.used};
  int error = write_all(spill_, &head, sizeof head);
  if (!error) error = write_all(spill_, chunk.data.get(), chunk.used);
  failure_ = error;
}

void ChunkStore::end_writer() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (writer_.joinable()) writer_.join();
}

void ChunkStore::read(const std::function<void(const Chunk&)>& take_chunk) {
  end_writer();
  if (failure_) throw std::system_error(failure_, std::generic_category(), "cannot write " + spill_path_);
  if (spill_ >= 0) {
    Chunk chunk;
    SpillHead head;
    off_t offset = 0;
    while (read_all(spill_, &head, sizeof head, offset)) {
      if (chunk.capacity < head.bytes) {
        chunk.data.reset(new uint8_t[head.bytes]);
        chunk.capacity = head.bytes;
      }
      chunk.thread = head.thread;
      chunk.used = head.bytes;
      if (!read_all(spill_, chunk.data.get(), head.bytes, offset)) {
        throw std::runtime_error("what was spilled cannot be read back");
      }
      take_chunk(chunk);
    }
  }
  for (const auto& chunk : full_) take_chunk(*chunk);
}

StoreCounts ChunkStore::counts() {
  std::lock_guard<std::mutex> lock(mutex_);
  return counts_;
}

}  // namespace tracebraid
