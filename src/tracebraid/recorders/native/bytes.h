// Numbers and texts as bytes, small ones short: what a record is made of.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string_view>

namespace tracebraid {

// Grows as it is written to. Between two calls of `reserve` there must be room for what is written.
class Bytes {
 public:
  static constexpr size_t kNumber = 10;  // bytes that a number takes at most

  void clear() { used_ = 0; }
  size_t size() const { return used_; }
  const uint8_t* data() const { return data_.get(); }
  void truncate(size_t size) { used_ = size; }
  void set(size_t at, uint8_t value) { data_[at] = value; }

  void reserve(size_t more) {
    if (used_ + more > capacity_) grow(more);
  }

  void byte(uint8_t value) { data_[used_++] = value; }

  void number(uint64_t value) {
    if (value < 0x80) {
      data_[used_++] = static_cast<uint8_t>(value);
      return;
    }
    while (value >= 0x80) {
      data_[used_++] = static_cast<uint8_t>(value | 0x80);
      value >>= 7;
    }
    data_[used_++] = static_cast<uint8_t>(value);
  }

  void signed_number(int64_t value) {
    number((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63));
  }

  void real(double value) {
    std::memcpy(data_.get() + used_, &value, sizeof value);
    used_ += sizeof value;
  }

  // Makes room for itself.
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

  size_t used_ = 0;
  size_t capacity_ = 4096;
  std::unique_ptr<uint8_t[]> data_{new uint8_t[4096]};
};

// Reads what `Bytes` wrote.
class Reader {
 public:
  Reader(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}

  bool done() const { return at_ == end_; }
  const uint8_t* at() const { return at_; }

  uint8_t byte() {
    need(1);
    return *at_++;
  }

  uint64_t number() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      uint8_t part = byte();
      value |= static_cast<uint64_t>(part & 0x7f) << shift;
      if (part < 0x80) return value;
    }
  }

  int64_t signed_number() {
    uint64_t value = number();
    return static_cast<int64_t>((value >> 1) ^ (~(value & 1) + 1));
  }

  double real() {
    need(sizeof(double));
    double value;
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

  std::string_view text() {
    size_t size = number();
    need(size);
    std::string_view value(reinterpret_cast<const char*>(at_), size);
    at_ += size;
    return value;
  }

  // The next `size` bytes, as a reader of their own.
  Reader part(size_t size) {
    need(size);
    Reader reader(at_, size);
    at_ += size;
    return reader;
  }

 private:
  void need(size_t bytes) const {
    if (static_cast<size_t>(end_ - at_) < bytes) throw std::runtime_error("a record is cut off");
  }

  const uint8_t* at_;
  const uint8_t* end_;
};

}  // namespace tracebraid
