// The encoding of records: numbers in LEB128 (7 bits a byte, small numbers are short), texts with their length.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string_view>

#include "assertions.h"

namespace tracebraid {

// A growing buffer. `reserve` makes room; the other functions, but for `text`, write into the room that was reserved
// without a check, which a debug build asserts.
class Bytes {
 public:
  static constexpr size_t kNumber = 10;  // bytes that a number needs at most: 64 bits, 7 a byte

  void clear() { used_ = 0; }
  size_t size() const { return used_; }
  const uint8_t* data() const { return data_.get(); }
  void truncate(size_t size) {
    TRACEBRAID_ASSERT(size <= used_);
    used_ = size;
  }
  void set(size_t index, uint8_t value) {
    TRACEBRAID_ASSERT(index < used_);
    data_[index] = value;
  }

  void reserve(size_t more) {
    if (used_ + more > capacity_) grow(more);
  }

  void byte(uint8_t value) {
    TRACEBRAID_ASSERT(used_ < capacity_);
    data_[used_++] = value;
  }

  void number(uint64_t value) {
    while (value >= 0x80) {
      byte(static_cast<uint8_t>(value | 0x80));
      value >>= 7;
    }
    byte(static_cast<uint8_t>(value));
  }

  void signed_number(int64_t value) {
    number((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63));
  }

  void real(double value) {
    TRACEBRAID_ASSERT(used_ + sizeof value <= capacity_);
    std::memcpy(data_.get() + used_, &value, sizeof value);
    used_ += sizeof value;
  }

  // Reserves its own room.
  void text(std::string_view value) {
    reserve(kNumber + value.size());
    number(value.size());
    std::memcpy(data_.get() + used_, value.data(), value.size());
    used_ += value.size();
  }

 private:
  void grow(size_t more) {
    size_t capacity = (used_ + more) * 2;
    std::unique_ptr<uint8_t[]> data(new uint8_t[capacity]);
    std::memcpy(data.get(), data_.get(), used_);
    data_ = std::move(data);
    capacity_ = capacity;
  }

  static constexpr size_t kFirstCapacity = 4096;  // bytes: most records are below 300

  size_t used_ = 0;
  size_t capacity_ = kFirstCapacity;
  std::unique_ptr<uint8_t[]> data_{new uint8_t[kFirstCapacity]};
};

// Reads what Bytes wrote. Throws std::runtime_error at the end of the data.
class ByteReader {
 public:
  ByteReader(const uint8_t* data, size_t size) : next_(data), end_(data + size) {}

  bool done() const { return next_ == end_; }
  const uint8_t* next() const { return next_; }

  uint8_t byte() {
    need(1);
    return *next_++;
  }

  uint64_t number() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      uint8_t group = byte();
      value |= static_cast<uint64_t>(group & 0x7f) << shift;
      if (group < 0x80) return value;
    }
  }

  int64_t signed_number() {
    uint64_t value = number();
    return static_cast<int64_t>((value >> 1) ^ (~(value & 1) + 1));
  }

  double real() {
    need(sizeof(double));
    double value = 0;
    std::memcpy(&value, next_, sizeof value);
    next_ += sizeof value;
    return value;
  }

  std::string_view text() {
    size_t size = number();
    need(size);
    std::string_view value(reinterpret_cast<const char*>(next_), size);
    next_ += size;
    return value;
  }

  // A reader of the next `size` bytes, which this one skips.
  ByteReader sub_reader(size_t size) {
    need(size);
    ByteReader reader(next_, size);
    next_ += size;
    return reader;
  }

 private:
  void need(size_t bytes) const {
    if (static_cast<size_t>(end_ - next_) < bytes) throw std::runtime_error("a record is truncated");
  }

  const uint8_t* next_;
  const uint8_t* end_;
};

}  // namespace tracebraid
