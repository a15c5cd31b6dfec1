#include "identity.h"

#include <algorithm>

namespace tracebraid {
namespace {

namespace raw = c10::raw::weak_intrusive_ptr;

const void* data_of(c10::StorageImpl& storage) {
  // Without the checks of copy-on-write and of fake tensors: the address is not read through.
  return storage._mutable_data_ptr_no_checks().get();
}

uint64_t number_of(const c10::intrusive_ptr_target* object) { return reinterpret_cast<uintptr_t>(object); }

size_t bytes_in_main_memory(c10::StorageImpl& storage) {
  return storage.device_type() == c10::kCPU ? storage.sym_nbytes().maybe_as_int().value_or(0) : 0;
}

}  // namespace

Identities::~Identities() {
  for (const auto* queue : {&young_, &old_}) {
    for (const Held& one : *queue) raw::decref(one.object);
  }
}

uint64_t Identities::look_up(c10::StorageImpl* storage) {
  Dead dead;
  uint64_t id;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    c10::intrusive_ptr_target* object = storage;
    if (uint64_t* known = held_.find(object)) return *known;
    dead = take_some_dead(bytes_in_main_memory(*storage));
    const void* data = data_of(*storage);
    id = data == nullptr ? 0 : alias_of(data);
    if (id == 0) id = new_id();
    hold({object, data}, id);
    if (data != nullptr) storage_at_.set(data, number_of(object));
  }
  for (auto* object : dead) raw::decref(object);
  return id;
}

uint64_t Identities::of_tensor_alone(const at::Tensor& tensor) {
  Dead dead;
  uint64_t id;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!tensor.defined()) {
      // There is one such object, and it is not counted.
      if (undefined_id_ == 0) undefined_id_ = new_id();
      return undefined_id_;
    }
    c10::intrusive_ptr_target* object = tensor.unsafeGetTensorImpl();
    if (uint64_t* known = held_.find(object)) return *known;
    dead = take_some_dead(0);
    id = new_id();
    hold({object, nullptr}, id);
  }
  for (auto* object : dead) raw::decref(object);
  return id;
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

void Identities::hold(Held one, uint64_t id) {
  raw::incref(one.object);
  held_.set(one.object, id);
  young_.push_back(one);
}

uint64_t Identities::alias_of(const void* data) {
  uint64_t* at = storage_at_.find(data);
  if (at == nullptr) return 0;
  // It is held, and may be letting its memory go right now. It is not locked for that: where it has a wrapper in Python,
  // that would take Python's lock. While it has this memory, both have it.
  auto* other = reinterpret_cast<c10::intrusive_ptr_target*>(*at);
  bool has_it = raw::use_count(other) > 0 && data_of(static_cast<c10::StorageImpl&>(*other)) == data;
  return has_it ? *held_.find(other) : 0;
}

Identities::Dead Identities::take_some_dead(size_t new_bytes) {
  Dead dead;
  take_dead(old_, 1 + new_bytes / kBytesEach, dead);
  if (young_.size() > kYoung) take_dead(young_, 1, dead);
  return dead;
}

void Identities::take_dead(std::deque<Held>& queue, size_t count, Dead& dead) {
  for (count = std::min(count, queue.size()); count > 0; count--) {
    Held one = queue.front();
    queue.pop_front();
    if (raw::use_count(one.object) > 0) {
      old_.push_back(one);
      continue;
    }
    held_.erase(one.object);
    uint64_t* at = one.data == nullptr ? nullptr : storage_at_.find(one.data);
    if (at != nullptr && *at == number_of(one.object)) storage_at_.erase(one.data);
    let_go_[SeenLately::place_of(one.object)].fetch_add(1, std::memory_order_release);
    dead.push_back(one.object);
  }
}

}  // namespace tracebraid
