// The file that holds the chunks for which there is no memory. It has no name once it is open: it vanishes with the
// process, however that ends.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "chunk.h"

namespace tracebraid {

// Not synchronised: the spill thread writes; `read` is called when that thread has been joined.
class SpillFile {
 public:
  explicit SpillFile(std::string path) : path_(std::move(path)) {}
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  // An errno where it cannot be written, else 0. The first chunk creates the file.
  int write(const Chunk& chunk);
  // All chunks, in the order in which they were written. Throws std::runtime_error where they cannot be read back.
  void read(const std::function<void(const Chunk&)>& consume);

 private:
  struct ChunkHeader {
    uint64_t thread;
    uint64_t size_bytes;
  };

  int create();
  int write_bytes(const void* data, size_t size);
  bool read_bytes(void* data, size_t size, off_t& offset);

  const std::string path_;
  int descriptor_ = -1;
};

}  // namespace tracebraid
