// A hash table from addresses to numbers: open addressing, linear probing, erasure without tombstones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "assertions.h"

namespace tracebraid {

// Not synchronised: its owner has a mutex.
class AddressMap {
 public:
  struct Entry {
    const void* key;
    uint64_t value;
  };

  // At most half of the buckets are used. Their number is a power of two, at least 2.
  explicit AddressMap(size_t buckets = 1024) : entries_(new Entry[buckets]()), buckets_(buckets) {
    while ((size_t{1} << bits_) < buckets) bits_++;
    TRACEBRAID_ASSERT(buckets >= 2 && size_t{1} << bits_ == buckets);
  }

  size_t size() const { return size_; }

  // The value of a key, which is not null; null where it has none. Valid until the next change of the table.
  uint64_t* find(const void* key) {
    Entry& entry = entries_[bucket_of(key)];
    return entry.key == key ? &entry.value : nullptr;
  }

  void set(const void* key, uint64_t value) {
    if (size_ * 2 >= buckets_) grow();
    Entry& entry = entries_[bucket_of(key)];
    size_ += entry.key == nullptr;
    entry = {key, value};
  }

  void erase(const void* key) {
    size_t hole = bucket_of(key);
    if (entries_[hole].key == nullptr) return;
    size_--;
    // Entries that probed past the hole move into it, or else they would not be found.
    for (size_t bucket = next(hole); entries_[bucket].key != nullptr; bucket = next(bucket)) {
      if (distance(home_of(entries_[bucket].key), bucket) < distance(hole, bucket)) continue;
      entries_[hole] = entries_[bucket];
      hole = bucket;
    }
    entries_[hole].key = nullptr;
  }

 private:
  size_t home_of(const void* key) const {
    return (reinterpret_cast<uintptr_t>(key) * 0x9E3779B97F4A7C15ULL) >> (64 - bits_);  // 2^64 / golden ratio
  }
  size_t next(size_t bucket) const { return (bucket + 1) & (buckets_ - 1); }
  size_t distance(size_t from, size_t to) const { return (to - from) & (buckets_ - 1); }

  // The bucket that has the key, or would have it.
  size_t bucket_of(const void* key) const {
    TRACEBRAID_ASSERT(key != nullptr);
    size_t bucket = home_of(key);
    while (entries_[bucket].key != nullptr && entries_[bucket].key != key) bucket = next(bucket);
    TRACEBRAID_ASSERT(bucket < buckets_);
    return bucket;
  }

  void grow() {
    AddressMap larger(buckets_ * 2);
    for (size_t i = 0; i < buckets_; i++) {
      if (entries_[i].key != nullptr) larger.set(entries_[i].key, entries_[i].value);
    }
    *this = std::move(larger);
  }

  std::unique_ptr<Entry[]> entries_;
  size_t buckets_;
  size_t size_ = 0;
  int bits_ = 0;
};

}  // namespace tracebraid
