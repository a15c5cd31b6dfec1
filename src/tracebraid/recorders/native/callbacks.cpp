// at::addGlobalCallback takes plain functions, without a pointer to data. PyTorch keeps them in each running operator
// and calls them at its end, on any thread, also long after they were removed. So each slot has a pair of functions of
// its own, which find the slot's recorder under an EpochGuard. They are registered while they record and no longer:
// PyTorch looks at each that is registered, enabled or not, for every node of a backward pass.
#include "callbacks.h"

#include <c10/util/Logging.h>

#include <atomic>
#include <utility>

#include "assertions.h"
#include "epochs.h"
#include "fork_handlers.h"
#include "slots.h"

namespace tracebraid {

std::array<Slot, kSlots>& slots = *new std::array<Slot, kSlots>();
std::mutex slots_mutex;

namespace {

uint64_t recordings_so_far = 0;  // guarded by slots_mutex

// No member has a destructor: operators may run while a thread's other variables are destroyed.
struct ThisThread {
  struct OwnLog {
    uint64_t recording_number;
    ThreadLog* log;
  };
  std::array<OwnLog, kSlots> logs;
  ThreadEpoch* epoch;
  bool is_inside;  // operators that recording itself runs are not recorded
};
thread_local constinit ThisThread this_thread{};

// Hands the thread's chunks over when the thread ends.
struct AtThreadEnd {
  bool is_armed = false;  // written at the first use, which makes the thread's own object
  AtThreadEnd() = default;
  ~AtThreadEnd();
  AtThreadEnd(const AtThreadEnd&) = delete;
  AtThreadEnd& operator=(const AtThreadEnd&) = delete;
};
thread_local AtThreadEnd at_thread_end;

// Calls `action` with the slot's recorder and this thread's log of it, where there is a recorder.
template <typename Action>
void with_recorder(int number, Action action) noexcept {
  ThisThread& thread = this_thread;
  if (thread.is_inside) return;
  if (thread.epoch == nullptr) {
    thread.epoch = acquire_epoch();
    at_thread_end.is_armed = true;
  }
  Slot& slot = slots[number];
  EpochGuard guard(*thread.epoch);
  Recorder* recorder = slot.recorder.load(std::memory_order_seq_cst);
  if (recorder == nullptr) return;
  auto& own = thread.logs[number];
  uint64_t recording_number = slot.recording_number.load(std::memory_order_relaxed);
  if (own.recording_number != recording_number) own = {recording_number, nullptr};
  thread.is_inside = true;
  try {
    action(*recorder, own.log);
  } catch (const std::exception& error) {
    // Out of memory: the operator goes on, and is not recorded.
    LOG(ERROR) << "tracebraid: " << error.what();
  }
  thread.is_inside = false;
}

AtThreadEnd::~AtThreadEnd() {
  for (int number = 0; number < kSlots; number++) {
    with_recorder(number, [](Recorder& recorder, ThreadLog*& log) {
      if (log != nullptr) recorder.retire(*log);
      log = nullptr;
    });
  }
  release_epoch(std::exchange(this_thread.epoch, nullptr));
}

template <int number>
std::unique_ptr<at::ObserverContext> on_enter(const at::RecordFunction& function) {
  if (has_inherited_callbacks.load(std::memory_order_relaxed)) remove_inherited_callbacks();
  with_recorder(number, [&](Recorder& recorder, ThreadLog*& log) { recorder.enter(function, log); });
  // No context: the end is matched to its beginning by the function's handle.
  return nullptr;
}

template <int number>
void on_exit(const at::RecordFunction& function, at::ObserverContext* /*context*/) {
  with_recorder(number, [&](Recorder& recorder, ThreadLog*& log) { recorder.exit(function, log); });
}

template <int... numbers>
at::CallbackHandle add_callback(int number, std::integer_sequence<int, numbers...> /*all*/) {
  static constexpr at::RecordFunctionCallback::StartCallback enters[] = {&on_enter<numbers>...};
  static constexpr at::RecordFunctionCallback::EndCallback exits[] = {&on_exit<numbers>...};
  return at::addGlobalCallback(
      at::RecordFunctionCallback(enters[number], exits[number]).needsInputs(true).needsOutputs(true).needsIds(true));
}

// Called with slots_mutex held.
void enable(Slot& slot, bool enabled) {
  bool is_enabled = slot.callback != at::INVALID_CALLBACK_HANDLE;
  if (is_enabled == enabled) return;
  if (enabled) {
    slot.callback = add_callback(static_cast<int>(&slot - slots.data()), std::make_integer_sequence<int, kSlots>());
  } else {
    at::removeCallback(std::exchange(slot.callback, at::INVALID_CALLBACK_HANDLE));
  }
}

}  // namespace

int attach(std::shared_ptr<Recorder> recorder) {
  register_fork_handlers();
  remove_inherited_callbacks();
  wait_for_inherited_callbacks();
  std::lock_guard<std::mutex> lock(slots_mutex);
  for (int number = 0; number < kSlots; number++) {
    Slot& slot = slots[number];
    if (slot.owner != nullptr) continue;
    slot.recording_number.store(++recordings_so_far, std::memory_order_relaxed);
    slot.owner = std::move(recorder);
    slot.recorder.store(slot.owner.get(), std::memory_order_seq_cst);
    return number;
  }
  return -1;
}

void set_enabled(int number, bool enabled) {
  TRACEBRAID_ASSERT(number >= 0 && number < kSlots);
  std::lock_guard<std::mutex> lock(slots_mutex);
  if (slots[number].owner != nullptr) enable(slots[number], enabled);
}

void detach(int number) {
  TRACEBRAID_ASSERT(number >= 0 && number < kSlots);
  TRACEBRAID_ASSERT(!this_thread.is_inside);
  Slot& slot = slots[number];
  {
    std::lock_guard<std::mutex> lock(slots_mutex);
    if (slot.owner == nullptr) return;
    enable(slot, false);
    slot.recorder.store(nullptr, std::memory_order_seq_cst);
  }
  // Not under slots_mutex: a thread inside may wait for Python's lock, whose holder may wait in a fork for slots_mutex.
  wait_for_grace_period();
  std::lock_guard<std::mutex> lock(slots_mutex);
  slot.owner.reset();
}

void forget_epoch_of_this_thread() { this_thread.epoch = nullptr; }

}  // namespace tracebraid
