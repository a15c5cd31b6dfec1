// The recordings that are open in this process.
#pragma once

#include <ATen/record_function.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "recorder.h"

namespace tracebraid {

// How many recordings can be open in a process at once.
constexpr int kSlots = 4;

// Shared by all threads. Threads that record read the two atomics, inside an EpochGuard (epochs.h), without a lock.
struct Slot {
  std::atomic<Recorder*> recorder{nullptr};  // published by attach, unpublished by detach
  // Counts the recordings of the process, so that a thread knows whether its log belongs to this recording.
  std::atomic<uint64_t> recording_number{0};
  // Guarded by slots_mutex:
  std::shared_ptr<Recorder> owner;  // set while the slot is taken; reset after the grace period
  at::CallbackHandle callback = at::INVALID_CALLBACK_HANDLE;  // set while PyTorch has it
};

// Never destroyed: threads may run operators while the process ends.
extern std::array<Slot, kSlots>& slots;

// The first of the lock order (recorder.h). PyTorch's own lock for callbacks is taken while it is held. No thread takes
// it inside a recorder: detach would wait for that thread, which would wait for detach.
extern std::mutex slots_mutex;

}  // namespace tracebraid
