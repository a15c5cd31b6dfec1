// Ids of tensors and storages that stay true when an address is used again.
//
// A storage that was seen is held by a weak pointer: its memory is freed as ever, but its own few bytes are not given
// back, so no other storage can come to lie at its address. From time to time the pointers of dead ones are let go. A
// tensor without storage is held in the same way.
//
// Tensors with storage come and go too fast for that. Such a tensor is known by its address and its storage: one that
// lies where another one lay has a new id, unless it is a view of the same storage.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include <ATen/core/TensorBody.h>

#include "format.h"
#include "pointer_map.h"

namespace tracebraid {

// The tensor that was seen last at an address.
struct TensorPlace {
  static constexpr uint64_t kChanging = ~uint64_t{0};
  std::atomic<uint64_t> storage{0};
  std::atomic<uint64_t> id{0};
};

// What one thread has seen lately: saves it the way to what all threads share.
struct SeenLately {
  struct Storage {
    const void* object = nullptr;
    uint64_t id = 0;
  };
  struct Tensor {
    const void* object = nullptr;
    TensorPlace* place = nullptr;
  };
  static constexpr int kBits = 8;

  uint64_t epoch = 0;
  std::array<Storage, 1 << kBits> storages{};
  std::array<Tensor, 1 << kBits> tensors{};

  static size_t place_of(const void* object) {
    return (reinterpret_cast<uintptr_t>(object) * 0x9E3779B97F4A7C15ull) >> (64 - kBits);
  }
};

struct Ids {
  uint64_t tensor, storage;
};

class Identities {
 public:
  Identities() = default;
  ~Identities();
  Identities(const Identities&) = delete;
  Identities& operator=(const Identities&) = delete;

  // To be called before a thread asks for ids; what it asks about must be alive until its next call of this.
  void refresh(SeenLately& seen) {
    uint64_t epoch = epoch_.load(std::memory_order_acquire);
    if (seen.epoch != epoch) {
      seen.storages.fill({});
      seen.epoch = epoch;
    }
  }

  Ids of_tensor_with_storage(const c10::TensorImpl& tensor, SeenLately& seen) {
    c10::StorageImpl* storage = tensor.unsafe_storage().unsafeGetStorageImpl();
    auto& known_storage = seen.storages[SeenLately::place_of(storage)];
    if (known_storage.object != storage) known_storage = {storage, look_up(storage)};
    auto& known_tensor = seen.tensors[SeenLately::place_of(&tensor)];
    if (known_tensor.object != &tensor) known_tensor = {&tensor, look_up_place(&tensor)};
    TensorPlace& place = *known_tensor.place;
    if (place.storage.load(std::memory_order_acquire) != known_storage.id) settle(place, known_storage.id);
    return {place.id.load(std::memory_order_relaxed), known_storage.id};
  }

  uint64_t of_tensor_alone(const at::Tensor& tensor);

 private:
  uint64_t look_up(c10::StorageImpl* storage);
  TensorPlace* look_up_place(const void* tensor);
  // A tensor over this storage is at the place now. Another thread may find that at the same time.
  void settle(TensorPlace& place, uint64_t storage);
  // The id of an object that is alive; it is held from now on. A new one gets `id`, or if that is 0 a new id.
  uint64_t hold(c10::intrusive_ptr_target* object, uint64_t id);
  // The id of the storage over the same memory that is alive (from_numpy twice, DLPack there and back), or 0.
  uint64_t alias_of(const void* data);
  std::vector<c10::intrusive_ptr_target*> sweep_if_due();
  // Odd numbers: the others are for nodes.
  uint64_t new_id() { return next_id_.fetch_add(2, std::memory_order_relaxed); }

  // The dead are let go by their number. They lie between blocks of memory that are free, and keep these apart: so they
  // are let go by their former sizes, too, unless that would mean to look at more of them than is worth it.
  static constexpr size_t kFewest = 512;
  static constexpr size_t kFewestBytes = 64 << 20;
  static constexpr size_t kBytesEach = 16 << 10;

  std::atomic<uint64_t> next_id_{kProcessNode + 2};
  std::atomic<uint64_t> epoch_{1};
  std::mutex mutex_;
  uint64_t undefined_id_ = 0;
  PointerMap held_;        // storages, and tensors without: their ids
  PointerMap storage_at_;  // memory: the storage seen last over it, as a number
  PointerMap place_at_;    // addresses of tensors: their places, as numbers
  std::deque<TensorPlace> places_;
  size_t sweep_at_ = kFewest;
  size_t fresh_bytes_ = 0;  // of storages in main memory that were seen first since the last sweep
};

}  // namespace tracebraid
