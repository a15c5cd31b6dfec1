#include "fork_handlers.h"

#include <ATen/record_function.h>
#include <pthread.h>

#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "callbacks.h"
#include "epochs.h"
#include "slots.h"

namespace tracebraid {

std::atomic<bool> has_inherited_callbacks{false};

namespace {

std::atomic<bool> is_removing{false};

// PyTorch has one lock for its callbacks. A thread takes it to change them, and each thread takes it again at its next
// operator. If it is held during a fork, the child can never take it. So none of our threads changes callbacks during a
// fork, and the forking thread updates its callbacks now, so that its next operator does not need the lock.
void prepare() {
  slots_mutex.lock();
  for (int scope = 0; scope < static_cast<int>(at::RecordScope::NUM_SCOPES); scope++) {
    at::getStepCallbacksUnlessEmpty(static_cast<at::RecordScope>(scope));
  }
}

void parent() { slots_mutex.unlock(); }

// The child has one thread, this one. Locks of the parent's other threads may stay locked, so none is taken: mutexes
// are made anew, and what the parent recorded is leaked, epochs included.
void child() {
  for (Slot& slot : slots) {
    slot.recorder.store(nullptr);
    new (&slot.owner) std::shared_ptr<Recorder>();
    if (slot.callback != at::INVALID_CALLBACK_HANDLE) has_inherited_callbacks.store(true);
  }
  is_removing.store(false);
  new (&slots_mutex) std::mutex();
  reset_epochs_in_child();
  forget_epoch_of_this_thread();
}

std::vector<at::CallbackHandle> take_inherited_callbacks() {
  std::vector<at::CallbackHandle> inherited;
  std::lock_guard<std::mutex> lock(slots_mutex);
  if (!has_inherited_callbacks.exchange(false)) return inherited;
  for (Slot& slot : slots) {
    if (slot.callback != at::INVALID_CALLBACK_HANDLE && slot.owner == nullptr) {
      inherited.push_back(std::exchange(slot.callback, at::INVALID_CALLBACK_HANDLE));
    }
  }
  return inherited;
}

}  // namespace

void register_fork_handlers() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(&prepare, &parent, &child); });
}

// PyTorch cannot remove callbacks during the fork, so the child's first operator has it done; on a thread of its own,
// which may wait for PyTorch's lock forever. Callbacks that stay find no recorder and do nothing.
void remove_inherited_callbacks() {
  std::vector<at::CallbackHandle> inherited = take_inherited_callbacks();
  if (inherited.empty()) return;
  is_removing.store(true);
  std::thread([inherited = std::move(inherited)] {
    for (at::CallbackHandle callback : inherited) at::removeCallback(callback);
    is_removing.store(false);
  }).detach();
}

void wait_for_inherited_callbacks() {
  while (is_removing.load()) std::this_thread::yield();
}

}  // namespace tracebraid
