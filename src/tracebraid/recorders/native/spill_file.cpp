#include "spill_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>

namespace tracebraid {

SpillFile::~SpillFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

int SpillFile::create() {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (descriptor_ < 0) return errno;
  ::unlink(path_.c_str());
  return 0;
}

int SpillFile::write(const Chunk& chunk) {
  ChunkHeader header{chunk.thread, chunk.used};
  int error = descriptor_ < 0 ? create() : 0;
  if (error == 0) error = write_bytes(&header, sizeof header);
  if (error == 0) error = write_bytes(chunk.data.get(), chunk.used);
  return error;
}

void SpillFile::read(const std::function<void(const Chunk&)>& consume) {
  if (descriptor_ < 0) return;
  Chunk chunk;
  ChunkHeader header{};
  off_t offset = 0;
  while (read_bytes(&header, sizeof header, offset)) {
    if (chunk.capacity < header.size_bytes) {
      chunk.data.reset(new uint8_t[header.size_bytes]);
      chunk.capacity = header.size_bytes;
    }
    chunk.thread = header.thread;
    chunk.used = header.size_bytes;
    if (!read_bytes(chunk.data.get(), chunk.used, offset)) {
      throw std::runtime_error("the spill file cannot be read back");
    }
    consume(chunk);
  }
}

int SpillFile::write_bytes(const void* data, size_t size) {
  const char* next = static_cast<const char*>(data);
  while (size > 0) {
    ssize_t written = ::write(descriptor_, next, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    next += written;
    size -= static_cast<size_t>(written);
  }
  return 0;
}

bool SpillFile::read_bytes(void* data, size_t size, off_t& offset) {
  char* next = static_cast<char*>(data);
  while (size > 0) {
    ssize_t count = ::pread(descriptor_, next, size, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    next += count;
    offset += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

}  // namespace tracebraid
