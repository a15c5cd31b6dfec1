// Ids of tensors and storages that stay true when an address is used again.
//
// Storages are reclaimed late. A storage that was seen is held by a weak reference: its memory is freed as ever, but
// the object itself is not, so no other storage can be made at its address. With each new storage, some of those held
// are examined, and the expired ones (no strong reference is left) are reclaimed: taken out of the tables, then
// released. A tensor without storage is held in the same way.
//
// Each thread has a cache in front of the tables. An entry of the cache is valid while the reclaim epoch of its bucket
// has not changed; reclaiming an object advances the epoch of its bucket before it releases the object.
//
// Tensors with storage come and go too fast to be held. Such a tensor is known by its address and its storage: a tensor
// at the address of an earlier one has a new id, unless it is a view of the same storage.
#pragma once

#include <ATen/core/TensorBody.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>

#include "address_map.h"
#include "record_format.h"

namespace tracebraid {

// The tensor that was seen last at an address. Shared by all threads, without a mutex: a thread that finds another
// storage there sets `storage` to kUpdating, then the new `tensor_id`, then the new `storage` (release). A thread that
// reads its own storage's id there (acquire) reads the tensor id that was written with it, or a later one of the same
// pair: the tensor is alive while it is asked about, so no other tensor is at its address.
struct TensorAddress {
  static constexpr uint64_t kUpdating = ~uint64_t{0};
  std::atomic<uint64_t> storage_id{0};
  std::atomic<uint64_t> tensor_id{0};
};

// One thread's cache in front of Identities.
struct IdentityCache {
  struct StorageEntry {
    const void* object = nullptr;
    uint64_t reclaim_epoch = 0;  // of its bucket, when the id was looked up
    uint64_t id = 0;
  };
  struct TensorEntry {
    const void* object = nullptr;
    TensorAddress* address = nullptr;
  };
  static constexpr int kBits = 8;
  static constexpr size_t kBuckets = 1 << kBits;

  std::array<StorageEntry, kBuckets> storages{};
  std::array<TensorEntry, kBuckets> tensors{};

  static size_t bucket_of(const void* object) {
    return (reinterpret_cast<uintptr_t>(object) * 0x9E3779B97F4A7C15ULL) >> (64 - kBits);  // 2^64 / golden ratio
  }
};

struct Ids {
  uint64_t tensor, storage;
};

// Shared by all threads that record. mutex_ is a leaf of the lock order (recorder.h): under it no other lock is taken,
// Python's in particular, and no object is released, as that may free memory and call into allocators.
class Identities {
  using Expired = c10::SmallVector<c10::intrusive_ptr_target*, 16>;

 public:
  Identities() = default;
  ~Identities();
  Identities(const Identities&) = delete;
  Identities& operator=(const Identities&) = delete;

  // The tensor must be alive during the call.
  //
  // Why a cached id is never that of an earlier storage at this address: such a storage must have been reclaimed before
  // this one was made. Reclaiming advances the epoch, then releases the object, whose address goes through the
  // allocator to the thread that made this storage, and with the storage to this thread. So the epoch's load here
  // happens after it was advanced, and the entry does not match.
  Ids of_tensor_with_storage(const c10::TensorImpl& tensor, IdentityCache& cache) {
    c10::StorageImpl* storage = tensor.unsafe_storage().unsafeGetStorageImpl();
    const c10::intrusive_ptr_target* object = storage;
    size_t bucket = IdentityCache::bucket_of(object);
    auto& known_storage = cache.storages[bucket];
    uint64_t reclaim_epoch = reclaim_epochs_[bucket].load(std::memory_order_acquire);
    if (known_storage.object != object || known_storage.reclaim_epoch != reclaim_epoch) {
      known_storage = {object, reclaim_epoch, look_up_storage(storage)};
    }
    auto& known_tensor = cache.tensors[IdentityCache::bucket_of(&tensor)];
    if (known_tensor.object != &tensor) known_tensor = {&tensor, look_up_address(&tensor)};
    TensorAddress& address = *known_tensor.address;
    if (address.storage_id.load(std::memory_order_acquire) != known_storage.id) update(address, known_storage.id);
    return {address.tensor_id.load(std::memory_order_relaxed), known_storage.id};
  }

  uint64_t of_tensor_alone(const at::Tensor& tensor);

 private:
  // An object with a weak reference of ours.
  struct Held {
    c10::intrusive_ptr_target* object;
    const void* data;  // where its memory was when it was first seen; null where it had none
  };

  uint64_t look_up_storage(c10::StorageImpl* storage);
  TensorAddress* look_up_address(const void* tensor);
  // A tensor over this storage is at the address now. Other threads may find that at the same time.
  void update(TensorAddress& address, uint64_t storage_id);

  // These are called with mutex_ held.
  // Holds an object that is alive and not held yet, under this id.
  void hold(Held held, uint64_t id);
  // The id of the living storage over the same memory (from_numpy twice, DLPack there and back), or 0.
  uint64_t alias_of(const void* data);
  // Takes the expired among the first `count` out of a queue and out of the tables; the others go into `old_`.
  void expire(std::deque<Held>& queue, size_t count, Expired& expired);
  Expired expire_some(size_t new_bytes);

  // Odd numbers: even ones are ids of nodes.
  uint64_t new_id() { return next_id_.fetch_add(2, std::memory_order_relaxed); }

  // Most storages die young: each is examined when 16 newer ones were seen. The others are examined in turn, one for
  // each new storage, and one more for each 16 KiB of it: the objects held lie between free blocks of memory and keep
  // the allocator from joining them. Both values are measured: benchmarks/README.md.
  static constexpr size_t kYoung = 16;
  static constexpr size_t kBytesPerExamined = size_t{16} << 10;

  std::atomic<uint64_t> next_id_{kProcessNode + 2};
  // Advanced under mutex_, read without it.
  std::array<std::atomic<uint64_t>, IdentityCache::kBuckets> reclaim_epochs_{};

  std::mutex mutex_;
  // Guarded by mutex_:
  uint64_t undefined_id_ = 0;
  AddressMap held_;                      // storages, and tensors without: their ids
  AddressMap storage_at_;                // memory: the storage seen last over it, as a number
  AddressMap address_of_;                // tensors: their TensorAddress, as a number
  std::deque<TensorAddress> addresses_;  // added and never removed, so pointers to them stay valid without the mutex
  std::deque<Held> young_, old_;
};

}  // namespace tracebraid
