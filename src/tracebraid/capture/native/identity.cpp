#include "identity.h"

#include <algorithm>

namespace tracebraid {
namespace {

namespace raw = c10::raw::weak_intrusive_ptr;

const void* data_of(c10::StorageImpl& storage) {
  // Without the checks of copy-on-write and of fake tensors: the address is not read through.
  return storage._mutable_data_ptr_no_checks().get();
}

size_t bytes_in_main_memory(c10::StorageImpl& storage) {
  return storage.device_type() == c10::kCPU ? storage.sym_nbytes().maybe_as_int().value_or(0) : 0;
}

c10::intrusive_ptr_target* object_of(const PointerMap::Entry& entry) {
  return static_cast<c10::intrusive_ptr_target*>(const_cast<void*>(entry.key));
}

}  // namespace

Identities::~Identities() {
  held_.each([](const PointerMap::Entry& entry) { raw::decref(object_of(entry)); });
}

uint64_t Identities::look_up(c10::StorageImpl* storage) {
  std::vector<c10::intrusive_ptr_target*> dead;
  uint64_t id;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    dead = sweep_if_due();
    c10::intrusive_ptr_target* object = storage;
    uint64_t* known = held_.find(object);
    const void* data = known ? nullptr : data_of(*storage);
    if (!known) fresh_bytes_ += bytes_in_main_memory(*storage);
    if (data == nullptr) {
      id = hold(object, 0);
    } else {
      id = hold(object, alias_of(data));
      storage_at_.set(data, reinterpret_cast<uintptr_t>(storage));
    }
  }
  for (auto* object : dead) raw::decref(object);
  return id;
}

uint64_t Identities::of_tensor_alone(const at::Tensor& tensor) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (tensor.defined()) return hold(tensor.unsafeGetTensorImpl(), 0);
  // There is one such object, and it is not counted.
  if (undefined_id_ == 0) undefined_id_ = new_id();
  return undefined_id_;
}

TensorPlace* Identities::look_up_place(const void* tensor) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (uint64_t* known = place_at_.find(tensor)) return reinterpret_cast<TensorPlace*>(*known);
  TensorPlace* place = &places_.emplace_back();
  place_at_.set(tensor, reinterpret_cast<uintptr_t>(place));
  return place;
}

void Identities::settle(TensorPlace& place, uint64_t storage) {
  uint64_t before = place.storage.load(std::memory_order_acquire);
  while (before != storage) {
    if (before == TensorPlace::kChanging) {
      before = place.storage.load(std::memory_order_acquire);
    } else if (place.storage.compare_exchange_weak(before, TensorPlace::kChanging, std::memory_order_acquire)) {
      place.id.store(new_id(), std::memory_order_relaxed);
      place.storage.store(storage, std::memory_order_release);
      return;
    }
  }
}

uint64_t Identities::hold(c10::intrusive_ptr_target* object, uint64_t id) {
  if (uint64_t* known = held_.find(object)) return *known;
  if (id == 0) id = new_id();
  raw::incref(object);
  held_.set(object, id);
  return id;
}

uint64_t Identities::alias_of(const void* data) {
  uint64_t* at = storage_at_.find(data);
  if (at == nullptr) return 0;
  // It is held, and may be letting its memory go right now. It is not locked for that: where it has a wrapper in Python,
  // that would take Python's lock. While it has this memory, both have it.
  auto* other = reinterpret_cast<c10::StorageImpl*>(*at);
  auto* object = static_cast<c10::intrusive_ptr_target*>(other);
  return raw::use_count(object) > 0 && data_of(*other) == data ? *held_.find(object) : 0;
}

std::vector<c10::intrusive_ptr_target*> Identities::sweep_if_due() {
  std::vector<c10::intrusive_ptr_target*> dead;
  bool is_large = fresh_bytes_ >= std::max(kFewestBytes, kBytesEach * held_.size());
  if (held_.size() < sweep_at_ && !is_large) return dead;
  PointerMap living, living_at;
  held_.each([&](const PointerMap::Entry& entry) {
    if (raw::use_count(object_of(entry)) == 0) {
      dead.push_back(object_of(entry));
    } else {
      living.set(entry.key, entry.value);
    }
  });
  storage_at_.each([&](const PointerMap::Entry& entry) {
    auto* storage = reinterpret_cast<c10::StorageImpl*>(entry.value);
    if (living.find(static_cast<c10::intrusive_ptr_target*>(storage))) living_at.set(entry.key, entry.value);
  });
  held_ = std::move(living);
  storage_at_ = std::move(living_at);
  sweep_at_ = std::max(kFewest, 2 * held_.size());
  fresh_bytes_ = 0;
  // Before the dead are let go, and with them their addresses.
  epoch_.fetch_add(1, std::memory_order_release);
  return dead;
}

}  // namespace tracebraid
