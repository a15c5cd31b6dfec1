#include "identity.h"

#include <algorithm>

#include "assertions.h"

namespace tracebraid {
namespace {

namespace raw = c10::raw::weak_intrusive_ptr;

// The address of the caller's own storage's memory, without the checks of copy-on-write and of fake tensors: it is not
// read through.
const void* data_of(c10::StorageImpl& storage) { return storage._mutable_data_ptr_no_checks().get(); }

// A DataPtr begins with the address. This is compared with what get() gives before it is relied on.
void* const* address_word(c10::StorageImpl& storage) {
  static_assert(sizeof(c10::DataPtr) >= sizeof(void*) && alignof(c10::DataPtr) >= alignof(void*));
  return reinterpret_cast<void* const*>(&storage._mutable_data_ptr_no_checks());
}

// The address of the memory of a storage that other threads may be changing or destroying now: see alias_of. PyTorch
// writes it without an atomic, so ThreadSanitizer would be right to report the pair; tests/integration/scripts/
// identity_race.cpp provokes it and proves the ids.
__attribute__((noinline, no_sanitize("thread"))) const void* racing_data_of(c10::StorageImpl& storage) {
  return __atomic_load_n(address_word(storage), __ATOMIC_RELAXED);
}

uint64_t number_of(const c10::intrusive_ptr_target* object) { return reinterpret_cast<uintptr_t>(object); }

size_t bytes_in_main_memory(c10::StorageImpl& storage) {
  return storage.device_type() == c10::kCPU ? storage.sym_nbytes().maybe_as_int().value_or(0) : 0;
}

}  // namespace

Identities::~Identities() {
  for (const auto* queue : {&young_, &old_}) {
    for (const Held& held : *queue) raw::decref(held.object);
  }
}

uint64_t Identities::look_up_storage(c10::StorageImpl* storage) {
  Expired expired;
  uint64_t id = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    c10::intrusive_ptr_target* object = storage;
    if (uint64_t* known = held_.find(object)) return *known;
    expired = expire_some(bytes_in_main_memory(*storage));
    const void* data = data_of(*storage);
    if (data != nullptr && *address_word(*storage) == data) id = alias_of(data);
    if (id == 0) id = new_id();
    hold({object, data}, id);
    if (data != nullptr) storage_at_.set(data, number_of(object));
  }
  for (auto* object : expired) raw::decref(object);
  return id;
}

uint64_t Identities::of_tensor_alone(const at::Tensor& tensor) {
  Expired expired;
  uint64_t id = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!tensor.defined()) {
      // There is one undefined tensor, a singleton without reference counts.
      if (undefined_id_ == 0) undefined_id_ = new_id();
      return undefined_id_;
    }
    c10::intrusive_ptr_target* object = tensor.unsafeGetTensorImpl();
    if (uint64_t* known = held_.find(object)) return *known;
    expired = expire_some(0);
    id = new_id();
    hold({object, nullptr}, id);
  }
  for (auto* object : expired) raw::decref(object);
  return id;
}

TensorAddress* Identities::look_up_address(const void* tensor) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (uint64_t* known = address_of_.find(tensor)) return reinterpret_cast<TensorAddress*>(*known);
  TensorAddress* address = &addresses_.emplace_back();
  address_of_.set(tensor, reinterpret_cast<uintptr_t>(address));
  return address;
}

void Identities::update(TensorAddress& address, uint64_t storage_id) {
  TRACEBRAID_ASSERT(storage_id != 0 && storage_id != TensorAddress::kUpdating);
  uint64_t found = address.storage_id.load(std::memory_order_acquire);
  while (found != storage_id) {
    if (found == TensorAddress::kUpdating) {
      found = address.storage_id.load(std::memory_order_acquire);
    } else if (address.storage_id.compare_exchange_weak(found, TensorAddress::kUpdating, std::memory_order_acquire)) {
      address.tensor_id.store(new_id(), std::memory_order_relaxed);
      address.storage_id.store(storage_id, std::memory_order_release);
      return;
    }
  }
}

void Identities::hold(Held held, uint64_t id) {
  raw::incref(held.object);
  held_.set(held.object, id);
  young_.push_back(held);
}

// Reads the address of another storage's memory while other threads may write it. Why the answer is right all the same,
// where A is the caller's storage with memory P, which is alive during the call, and B the storage seen last over P:
//
// 1. The read is of memory that is there. We hold B by a weak reference, so B's object is not freed; what its last
// strong
//    reference frees is the memory that B points to, which is not read.
// 2. The read gives an address that B had. It is one load of one aligned word, which no supported machine tears; and
// the
//    result is used once, in a comparison.
// 3. If B and A share P, both orders of the read and of a write to B's address are right answers: at the moment that B
//    changes or dies, it still has P or it no longer does.
// 4. If they do not share P, B had P earlier and freed it before A's memory was allocated there. Freeing and allocating
//    the same block happen in that order for all threads (the allocator sees to that), so what B's thread did before it
//    freed P happens before this call, and is seen here:
//    - B died: its strong count was 0 before its memory was freed. StorageImpl::release_resources frees first and
//    clears
//      the address afterwards, so the address may still read as P; but the count reads 0. This is why it is read.
//    - B is alive with other memory (resize_, set_data_ptr): the new address was stored before the old block was freed,
//      by the move assignment of DataPtr, or by the caller who got the old DataPtr back. So P is not read, whether or
//      not yet another change is under way.
//
// A strong reference would not help. B may be changed by a thread that has one, and where B has a wrapper in Python,
// taking one takes Python's lock, which must not happen under mutex_.
uint64_t Identities::alias_of(const void* data) {
  uint64_t* number = storage_at_.find(data);
  if (number == nullptr) return 0;
  auto* other = reinterpret_cast<c10::intrusive_ptr_target*>(*number);
  TRACEBRAID_ASSERT(held_.find(other) != nullptr);
  bool has_data = raw::use_count(other) > 0 && racing_data_of(static_cast<c10::StorageImpl&>(*other)) == data;
  return has_data ? *held_.find(other) : 0;
}

Identities::Expired Identities::expire_some(size_t new_bytes) {
  Expired expired;
  expire(old_, 1 + new_bytes / kBytesPerExamined, expired);
  if (young_.size() > kYoung) expire(young_, 1, expired);
  return expired;
}

void Identities::expire(std::deque<Held>& queue, size_t count, Expired& expired) {
  for (count = std::min(count, queue.size()); count > 0; count--) {
    Held held = queue.front();
    queue.pop_front();
    if (raw::use_count(held.object) > 0) {
      old_.push_back(held);
      continue;
    }
    held_.erase(held.object);
    uint64_t* number = held.data == nullptr ? nullptr : storage_at_.find(held.data);
    if (number != nullptr && *number == number_of(held.object)) storage_at_.erase(held.data);
    reclaim_epochs_[IdentityCache::bucket_of(held.object)].fetch_add(1, std::memory_order_release);
    expired.push_back(held.object);
  }
}

}  // namespace tracebraid
