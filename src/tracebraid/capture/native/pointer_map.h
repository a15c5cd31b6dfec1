// A hash table from addresses to numbers that never gives an entry back: who has dead ones makes a new table.
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
    Entry& entry = place_of(key);
    return entry.key == key ? &entry.value : nullptr;
  }

  void set(const void* key, uint64_t value) {
    if (size_ * 2 >= places_) grow();
    Entry& entry = place_of(key);
    size_ += entry.key == nullptr;
    entry = {key, value};
  }

  template <typename What>
  void each(What what) const {
    for (size_t i = 0; i < places_; i++) {
      if (entries_[i].key != nullptr) what(entries_[i]);
    }
  }

 private:
  Entry& place_of(const void* key) {
    size_t at = (reinterpret_cast<uintptr_t>(key) * 0x9E3779B97F4A7C15ull) >> (64 - bits_);
    while (entries_[at].key != nullptr && entries_[at].key != key) at = (at + 1) & (places_ - 1);
    return entries_[at];
  }

  void grow() {
    PointerMap larger(places_ * 2);
    each([&](const Entry& entry) { larger.set(entry.key, entry.value); });
    *this = std::move(larger);
  }

  std::unique_ptr<Entry[]> entries_;
  size_t places_;
  size_t size_ = 0;
  int bits_ = 0;
};

}  // namespace tracebraid
