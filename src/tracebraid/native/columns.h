// What a scan fills: arrays that grow in place, and texts numbered in the order of their first appearance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "json_text.h"

namespace tracebraid {

// Grows by realloc: of a large array the kernel moves the pages, so that it never stands twice.
template <typename Item>
class Array {
 public:
  Array() = default;
  Array(Array&& other) noexcept : items_(other.items_), size_(other.size_), capacity_(other.capacity_) {
    other.items_ = nullptr;
    other.size_ = other.capacity_ = 0;
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  Array& operator=(Array&&) = delete;
  ~Array() { free(items_); }

  size_t size() const { return size_; }
  const Item* data() const { return items_; }
  Item* begin() { return items_; }
  Item& operator[](size_t i) { return items_[i]; }
  const Item& operator[](size_t i) const { return items_[i]; }
  void cut(size_t size) { size_ = size < size_ ? size : size_; }

  void add(Item item) {
    if (size_ == capacity_) reserve(size_ + 1);
    items_[size_++] = item;
  }
  void add(const Item* items, size_t count) {
    if (count == 0) return;
    reserve(size_ + count);
    memcpy(items_ + size_, items, count * sizeof(Item));
    size_ += count;
  }
  void fill(size_t size, Item item) {
    if (size <= size_) return;
    reserve(size);
    while (size_ < size) items_[size_++] = item;
  }
  // The items without spare room, which the caller frees; null where there are none.
  Item* release() {
    auto* items = static_cast<Item*>(size_ == 0 ? nullptr : realloc(items_, size_ * sizeof(Item)));
    if (size_ == 0) free(items_);
    if (items == nullptr && size_ != 0) items = items_;
    items_ = nullptr;
    size_ = capacity_ = 0;
    return items;
  }
  void reserve(size_t wanted) {
    if (wanted <= capacity_) return;
    size_t capacity = capacity_ + capacity_ / 2;
    capacity = capacity < wanted ? wanted : capacity;
    capacity = capacity < kLeast ? kLeast : capacity;
    void* grown = realloc(items_, capacity * sizeof(Item));
    if (grown == nullptr) throw std::bad_alloc();
    items_ = static_cast<Item*>(grown);
    capacity_ = capacity;
  }

 private:
  static constexpr size_t kLeast = 64;
  Item* items_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

// JSON texts by number. They lie in one array with a comma behind each, so that a decoder takes them as a list.
class Texts {
 public:
  Texts() { starts_.add(0); }

  int32_t size() const { return static_cast<int32_t>(starts_.size() - 1); }
  const Byte* text(int32_t number) const { return bytes_.data() + starts_[number]; }
  size_t length(int32_t number) const { return starts_[number + 1] - starts_[number] - 1; }
  Array<Byte>& bytes() { return bytes_; }

  bool is(int32_t number, const Byte* text, size_t length) const {
    return this->length(number) == length && memcmp(this->text(number), text, length) == 0;
  }

  // The number of a text; a new one is checked, unless it is known to be valid.
  int32_t number(const Byte* text, size_t length, bool is_valid = false) {
    if (last_ < size() && is(last_, text, length)) return last_;
    if (slots_.empty()) slots_.assign(kSlotsAtFirst, kNone);
    uint64_t hash = hash_of(text, length), mask = slots_.size() - 1;
    for (uint64_t i = hash & mask;; i = (i + 1) & mask) {
      uint64_t slot = slots_[i];
      if (slot == kNone) {
        if (!is_valid) check_text(text, text + length);
        return last_ = add(text, length, hash, i);
      }
      auto known = static_cast<int32_t>(slot & kNumberBits);
      if ((slot ^ hash) >> 32 == 0 && is(known, text, length)) return last_ = known;
    }
  }

  // Forgets all but the first texts. No more may be added then.
  void cut(int32_t size) {
    starts_.cut(size + 1);
    bytes_.cut(starts_[size]);
  }

 private:
  int32_t add(const Byte* text, size_t length, uint64_t hash, uint64_t slot) {
    if (size() == INT32_MAX) throw Unusual{};
    int32_t number = size();
    bytes_.add(text, length);
    bytes_.add(',');
    starts_.add(bytes_.size());
    slots_[slot] = (hash & ~kNumberBits) | static_cast<uint64_t>(number);
    if (starts_.size() * 2 > slots_.size()) grow();
    return number;
  }

  void grow() {
    slots_.assign(slots_.size() * 4, kNone);
    uint64_t mask = slots_.size() - 1;
    for (int32_t number = 0; number < size(); number++) {
      uint64_t hash = hash_of(text(number), length(number)), i = hash & mask;
      while (slots_[i] != kNone) i = (i + 1) & mask;
      slots_[i] = (hash & ~kNumberBits) | static_cast<uint64_t>(number);
    }
  }

  // Reads nothing behind the text, which may be the last one of an array.
  static uint64_t hash_of(const Byte* text, size_t length) {
    constexpr uint64_t kFactor = 0x9E3779B97F4A7C15ull;
    uint64_t hash = length * kFactor;
    const Byte* end = text + length;
    for (; end - text >= 8; text += 8) {
      hash = (hash ^ load8(text)) * kFactor;
      hash ^= hash >> 29;
    }
    uint64_t rest = 0;
    if (end > text) memcpy(&rest, text, end - text);
    hash = (hash ^ rest) * 0xA0761D6478BD642Full;
    return hash ^ hash >> 32;
  }

  static constexpr uint64_t kNone = ~0ull;
  static constexpr uint64_t kNumberBits = 0xFFFFFFFFull;
  static constexpr size_t kSlotsAtFirst = 64;
  Array<Byte> bytes_;
  Array<size_t> starts_;
  // The upper half of a hash, and a number.
  std::vector<uint64_t> slots_;
  int32_t last_ = 0;
};

}  // namespace tracebraid
