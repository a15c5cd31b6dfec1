// A hash table from addresses to numbers.
#pragma once

#include <cstdint>
#include <memory>

namespace tracebraid {

class PointerMap {
 public:
  struct Entry {
    const void* key;
    uint64_t value;
  };

  // Holds at most half as many entries as it has places, which are a power of two.
  explicit PointerMap(size_t places = 1024) : entries_(new Entry[places]()), places_(places) {
    for (bits_ = 0; (size_t{1} << bits_) < places; bits_++) {}
  }

  size_t size() const { return size_; }

  // The value of a key, which is no null; null where it has none.
  uint64_t* find(const void* key) {
    Entry& entry = entries_[place_of(key)];
    return entry.key == key ? &entry.value : nullptr;
  }

  void set(const void* key, uint64_t value) {
    if (size_ * 2 >= places_) grow();
    Entry& entry = entries_[place_of(key)];
    size_ += entry.key == nullptr;
    entry = {key, value};
  }

  void erase(const void* key) {
    size_t hole = place_of(key);
    if (entries_[hole].key == nullptr) return;
    size_--;
    // What could not lie in the hole as it was taken moves there now.
    for (size_t at = next(hole); entries_[at].key != nullptr; at = next(at)) {
      if (distance(first_place_of(entries_[at].key), at) < distance(hole, at)) continue;
      entries_[hole] = entries_[at];
      hole = at;
    }
    entries_[hole].key = nullptr;
  }

 private:
  size_t first_place_of(const void* key) const {
    return (reinterpret_cast<uintptr_t>(key) * 0x9E3779B97F4A7C15ull) >> (64 - bits_);
  }
  size_t next(size_t place) const { return (place + 1) & (places_ - 1); }
  size_t distance(size_t from, size_t to) const { return (to - from) & (places_ - 1); }

  // Where a key lies, or would.
  size_t place_of(const void* key) const {
    size_t at = first_place_of(key);
    while (entries_[at].key != nullptr && entries_[at].key != key) at = next(at);
    return at;
  }

  void grow() {
    PointerMap larger(places_ * 2);
    for (size_t i = 0; i < places_; i++) {
      if (entries_[i].key != nullptr) larger.set(entries_[i].key, entries_[i].value);
    }
    *this = std::move(larger);
  }

  std::unique_ptr<Entry[]> entries_;
  size_t places_;
  size_t size_ = 0;
  int bits_ = 0;
};

}  // namespace tracebraid
