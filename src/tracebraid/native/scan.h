// A scan: chunks of a file's array of objects in, columns out. `importers/native_scan.py` is its twin in Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "columns.h"
#include "json_text.h"

namespace tracebraid {

class Scan {
 public:
  Scan() = default;
  Scan(const Scan&) = delete;
  Scan& operator=(const Scan&) = delete;
  Scan(Scan&&) = delete;
  Scan& operator=(Scan&&) = delete;
  virtual ~Scan() = default;

  // Takes a chunk, or gives it back: then the scan is over, and `take` returns what was before it.
  bool add(const Byte* data, size_t size) {
    buffer_.resize(size + kPadding);
    memcpy(buffer_.data(), data, size);
    memset(buffer_.data() + size, 0, kPadding);
    return read(buffer_.data(), buffer_.data() + size);
  }
  // The array `what` of a column, table or 0; the caller owns it. Returns its bytes.
  virtual int64_t take(int what, int of, void** items) = 0;

 private:
  // See `add`; padding lies behind the end.
  virtual bool read(const Byte* begin, const Byte* end) = 0;

  std::vector<Byte> buffer_;
};

// Reads the events of a Kineto trace into the tables that are declared.
std::unique_ptr<Scan> kineto_scan(std::string_view declaration);
// Reads the nodes of an Execution Trace.
std::unique_ptr<Scan> node_scan();

template <typename Item>
int64_t given(Array<Item>& array, void** items) {
  auto size = static_cast<int64_t>(array.size() * sizeof(Item));
  *items = array.release();
  return size;
}

}  // namespace tracebraid
