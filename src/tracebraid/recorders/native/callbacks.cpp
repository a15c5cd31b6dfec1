// PyTorch keeps callbacks as plain functions in each running operator, long after they were removed, and calls them on
// any thread. So each slot has functions of its own, which are registered once and then stay. Each thread has a gate,
// which says whether it is inside of a recording; one is taken away only when all threads have been seen outside.
#include "callbacks.h"

#include <array>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>
#include <c10/util/Logging.h>

namespace tracebraid {
namespace {

// Apart from each other in memory, so that threads do not wait for each other's. Gates are never freed: those of
// threads that ended go to new threads.
struct alignas(64) Gate {
  std::atomic<uint64_t> passed{0};  // odd: inside
  Gate* next = nullptr;             // of all
  Gate* next_free = nullptr;
};

struct Slot {
  std::atomic<Recorder*> recorder{nullptr};
  std::atomic<uint64_t> recording{0};  // counts recordings, so that threads know theirs
  // Under the mutex:
  std::shared_ptr<Recorder> owner;
  at::CallbackHandle callback = at::INVALID_CALLBACK_HANDLE;
  bool is_on = false;
};

// Never destroyed: threads may still run operators while the process ends.
auto& slots = *new std::array<Slot, kSlots>();
std::mutex slots_mutex;
Gate* all_gates = nullptr;
Gate* free_gates = nullptr;
std::mutex gates_mutex;
std::atomic<uint64_t> recordings{0};
std::atomic<bool> is_forked{false};
std::atomic<bool> is_leaving{false};  // a child that takes out its parent's callbacks

// Nothing in here has a destructor: operators may run while a thread's other variables are destroyed.
struct ThisThread {
  struct Mine {
    uint64_t recording;
    ThreadLog* log;
  };
  std::array<Mine, kSlots> mine;
  Gate* gate;
  bool is_recording;  // what recording itself sets off is not recorded
};
thread_local constinit ThisThread this_thread{};

// Tells the recordings that the thread ends.
struct AtThreadEnd {
  bool watches = false;
  ~AtThreadEnd();
};
thread_local AtThreadEnd at_thread_end;

Gate* take_gate() {
  std::lock_guard<std::mutex> lock(gates_mutex);
  Gate* gate = free_gates;
  if (gate != nullptr) {
    free_gates = gate->next_free;
  } else {
    gate = new Gate();
    gate->next = all_gates;
    all_gates = gate;
  }
  return gate;
}

void give_back(Gate* gate) {
  std::lock_guard<std::mutex> lock(gates_mutex);
  gate->next_free = free_gates;
  free_gates = gate;
}

class Visit {
 public:
  Visit(Slot& slot, Gate& gate) : gate_(gate), before_(gate.passed.load(std::memory_order_relaxed)) {
    // Before the recorder is read, in an order that `detach` sees too.
    gate_.passed.store(before_ + 1, std::memory_order_seq_cst);
    recorder_ = slot.recorder.load(std::memory_order_seq_cst);
  }
  ~Visit() { gate_.passed.store(before_ + 2, std::memory_order_release); }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  Recorder* recorder() const { return recorder_; }

 private:
  Gate& gate_;
  uint64_t before_;
  Recorder* recorder_;
};

template <typename What>
void visit(int number, What what) noexcept {
  ThisThread& thread = this_thread;
  if (thread.is_recording) return;
  if (thread.gate == nullptr) {
    thread.gate = take_gate();
    at_thread_end.watches = true;
  }
  Slot& slot = slots[number];
  Visit visit(slot, *thread.gate);
  if (visit.recorder() == nullptr) return;
  auto& mine = thread.mine[number];
  uint64_t recording = slot.recording.load(std::memory_order_relaxed);
  if (mine.recording != recording) mine = {recording, nullptr};
  thread.is_recording = true;
  try {
    what(*visit.recorder(), mine.log);
  } catch (const std::exception& error) {
    // Only memory that cannot be had gets here: the operator goes on, and is not recorded.
    LOG(ERROR) << "tracebraid: " << error.what();
  }
  thread.is_recording = false;
}

AtThreadEnd::~AtThreadEnd() {
  for (int number = 0; number < kSlots; number++) {
    visit(number, [](Recorder& recorder, ThreadLog*& log) {
      if (log != nullptr) recorder.retire(*log);
      log = nullptr;
    });
  }
  give_back(std::exchange(this_thread.gate, nullptr));
}

void leave_in_child();

template <int number>
std::unique_ptr<at::ObserverContext> on_enter(const at::RecordFunction& function) {
  if (is_forked.load(std::memory_order_relaxed)) leave_in_child();
  visit(number, [&](Recorder& recorder, ThreadLog*& log) { recorder.enter(function, log); });
  // The end finds its beginning by the function's handle.
  return nullptr;
}

template <int number>
void on_exit(const at::RecordFunction& function, at::ObserverContext*) {
  visit(number, [&](Recorder& recorder, ThreadLog*& log) { recorder.exit(function, log); });
}

template <int... numbers>
at::CallbackHandle add_callback(int number, std::integer_sequence<int, numbers...>) {
  static constexpr at::RecordFunctionCallback::StartCallback enters[] = {&on_enter<numbers>...};
  static constexpr at::RecordFunctionCallback::EndCallback exits[] = {&on_exit<numbers>...};
  return at::addGlobalCallback(
      at::RecordFunctionCallback(enters[number], exits[number]).needsInputs(true).needsOutputs(true).needsIds(true));
}

// PyTorch has one lock for its callbacks. Threads take it when these change, and each thread again at its next operator.
// Where one holds it while another forks, the child can never take it. So no thread of ours changes them meanwhile, and
// the one that forks has nothing left to look up.
void hold_still() {
  slots_mutex.lock();
  for (int scope = 0; scope < static_cast<int>(at::RecordScope::NUM_SCOPES); scope++) {
    at::getStepCallbacksUnlessEmpty(static_cast<at::RecordScope>(scope));
  }
}
void go_on() { slots_mutex.unlock(); }

// In the child of a fork there is one thread, this one; the others' locks may be held for ever, so none is taken, and
// what the parent recorded so far is left where it is, gates included.
void cut_off_child() {
  for (Slot& slot : slots) {
    slot.recorder.store(nullptr);
    new (&slot.owner) std::shared_ptr<Recorder>();
    if (slot.is_on) is_forked.store(true);
  }
  is_leaving.store(false);
  new (&slots_mutex) std::mutex();
  new (&gates_mutex) std::mutex();
  all_gates = free_gates = this_thread.gate = nullptr;
}

// In the child: the callbacks of the parent's recordings.
std::vector<at::CallbackHandle> take_inherited() {
  std::vector<at::CallbackHandle> inherited;
  std::lock_guard<std::mutex> lock(slots_mutex);
  if (!is_forked.exchange(false)) return inherited;
  for (Slot& slot : slots) {
    if (slot.is_on && slot.owner == nullptr) {
      slot.is_on = false;
      inherited.push_back(slot.callback);
    }
  }
  return inherited;
}

// The first operator in the child has the callbacks taken out, which PyTorch cannot do during the fork; by a thread of
// its own, as PyTorch's lock may be one that nobody lets go. Callbacks that stay do nothing.
void leave_in_child() {
  std::vector<at::CallbackHandle> inherited = take_inherited();
  if (inherited.empty()) return;
  is_leaving.store(true);
  std::thread([inherited = std::move(inherited)] {
    for (at::CallbackHandle callback : inherited) at::disableCallback(callback);
    is_leaving.store(false);
  }).detach();
}

void wait_until_left() {
  while (is_leaving.load()) std::this_thread::yield();
}

void watch_forks() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(&hold_still, &go_on, &cut_off_child); });
}

void wait_until_outside() {
  std::lock_guard<std::mutex> lock(gates_mutex);
  for (Gate* gate = all_gates; gate != nullptr; gate = gate->next) {
    uint64_t passed = gate->passed.load(std::memory_order_seq_cst);
    while (passed % 2 == 1 && gate->passed.load(std::memory_order_seq_cst) == passed) std::this_thread::yield();
  }
}

void turn(Slot& slot, bool on) {
  if (slot.is_on == on) return;
  if (on) {
    at::reenableCallback(slot.callback);
  } else {
    at::disableCallback(slot.callback);
  }
  slot.is_on = on;
}

}  // namespace

int attach(std::shared_ptr<Recorder> recorder) {
  watch_forks();
  leave_in_child();
  wait_until_left();
  std::lock_guard<std::mutex> lock(slots_mutex);
  for (int number = 0; number < kSlots; number++) {
    Slot& slot = slots[number];
    if (slot.owner != nullptr) continue;
    if (slot.callback == at::INVALID_CALLBACK_HANDLE) {
      slot.callback = add_callback(number, std::make_integer_sequence<int, kSlots>());
      slot.is_on = true;
      turn(slot, false);
    }
    slot.recording.store(++recordings, std::memory_order_relaxed);
    slot.owner = std::move(recorder);
    slot.recorder.store(slot.owner.get(), std::memory_order_seq_cst);
    return number;
  }
  return -1;
}

void switch_slot(int number, bool on) {
  std::lock_guard<std::mutex> lock(slots_mutex);
  if (slots[number].owner != nullptr) turn(slots[number], on);
}

void detach(int number) {
  Slot& slot = slots[number];
  {
    std::lock_guard<std::mutex> lock(slots_mutex);
    if (slot.owner == nullptr) return;
    turn(slot, false);
    slot.recorder.store(nullptr, std::memory_order_seq_cst);
  }
  // Without the lock: a thread inside may wait for Python's, and that one's holder for a fork, which waits for ours.
  wait_until_outside();
  std::lock_guard<std::mutex> lock(slots_mutex);
  slot.owner.reset();
}

}  // namespace tracebraid
