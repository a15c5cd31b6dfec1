// Ids of tensors and storages that stay true when an address is used again.
//
// A storage that was seen is held by a weak pointer: its memory is freed as ever, but its own few bytes are not given
// back, so no other storage can come to lie at its address. With each new storage some of the dead ones are let go. A
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

#include <ATen/core/TensorBody.h>
#include <c10/util/SmallVector.h>

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
    uint64_t let_go = 0;  // how many were, of its place, when it was looked up
    uint64_t id = 0;
  };
  struct Tensor {
    const void* object = nullptr;
    TensorPlace* place = nullptr;
  };
  static constexpr int kBits = 8;
  static constexpr size_t kPlaces = 1 << kBits;

  std::array<Storage, kPlaces> storages{};
  std::array<Tensor, kPlaces> tensors{};

  static size_t place_of(const void* object) {
    return (reinterpret_cast<uintptr_t>(object) * 0x9E3779B97F4A7C15ull) >> (64 - kBits);
  }
};

struct Ids {
  uint64_t tensor, storage;
};

class Identities {
  using Dead = c10::SmallVector<c10::intrusive_ptr_target*, 16>;

 public:
  Identities() = default;
  ~Identities();
  Identities(const Identities&) = delete;
  Identities& operator=(const Identities&) = delete;

  // The tensor must be alive while it is asked about.
  Ids of_tensor_with_storage(const c10::TensorImpl& tensor, SeenLately& seen) {
    c10::StorageImpl* storage = tensor.unsafe_storage().unsafeGetStorageImpl();
    const c10::intrusive_ptr_target* object = storage;
    size_t place_of_storage = SeenLately::place_of(object);
    auto& known_storage = seen.storages[place_of_storage];
    uint64_t let_go = let_go_[place_of_storage].load(std::memory_order_acquire);
    if (known_storage.object != object || known_storage.let_go != let_go) {
      known_storage = {object, let_go, look_up(storage)};
    }
    auto& known_tensor = seen.tensors[SeenLately::place_of(&tensor)];
    if (known_tensor.object != &tensor) known_tensor = {&tensor, look_up_place(&tensor)};
    TensorPlace& place = *known_tensor.place;
    if (place.storage.load(std::memory_order_acquire) != known_storage.id) settle(place, known_storage.id);
    return {place.id.load(std::memory_order_relaxed), known_storage.id};
  }

  uint64_t of_tensor_alone(const at::Tensor& tensor);

 private:
  struct Held {
    c10::intrusive_ptr_target* object;
    const void* data;  // where its memory lay; null where it had none
  };

  uint64_t look_up(c10::StorageImpl* storage);
  TensorPlace* look_up_place(const void* tensor);
  // A tensor over this storage is at the place now. Another thread may find that at the same time.
  void settle(TensorPlace& place, uint64_t storage);
  // Under the mutex:
  // A living object that is not held yet is from now on, by this id.
  void hold(Held one, uint64_t id);
  // The id of the storage over the same memory that is alive (from_numpy twice, DLPack there and back), or 0.
  uint64_t alias_of(const void* data);
  // Takes the dead among the first ones out of a queue and out of what is known; the living go into `old_`.
  void take_dead(std::deque<Held>& queue, size_t count, Dead& dead);
  Dead take_some_dead(size_t new_bytes);
  // Odd numbers: the others are for nodes.
  uint64_t new_id() { return next_id_.fetch_add(2, std::memory_order_relaxed); }

  // Most die young: each is looked at when so many newer ones were seen. The others are looked at in turn: one for each
  // new one; and as the dead lie between blocks of memory that are free, and keep these apart, one more for so many
  // bytes.
  static constexpr size_t kYoung = 16;
  static constexpr size_t kBytesEach = 16 << 10;

  std::atomic<uint64_t> next_id_{kProcessNode + 2};
  // How many were let go of those that have this place in `SeenLately`. Counted before they are, and with them their
  // addresses.
  std::array<std::atomic<uint64_t>, SeenLately::kPlaces> let_go_{};
  std::mutex mutex_;
  uint64_t undefined_id_ = 0;
  PointerMap held_;        // storages, and tensors without: their ids
  PointerMap storage_at_;  // memory: the storage seen last over it, as a number
  PointerMap place_at_;    // addresses of tensors: their places, as numbers
  std::deque<TensorPlace> places_;
  std::deque<Held> young_, old_;
};

}  // namespace tracebraid
