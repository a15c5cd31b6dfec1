#include "epochs.h"

#include <mutex>
#include <new>
#include <thread>

#include "assertions.h"

namespace tracebraid {
namespace {

std::mutex epochs_mutex;  // guards the two lists
ThreadEpoch* all_epochs = nullptr;
ThreadEpoch* free_epochs = nullptr;

}  // namespace

ThreadEpoch* acquire_epoch() {
  std::lock_guard<std::mutex> lock(epochs_mutex);
  ThreadEpoch* epoch = free_epochs;
  if (epoch != nullptr) {
    free_epochs = epoch->next_free;
  } else {
    epoch = new ThreadEpoch();
    epoch->next = all_epochs;
    all_epochs = epoch;
  }
  return epoch;
}

void release_epoch(ThreadEpoch* epoch) {
  TRACEBRAID_ASSERT(epoch->value.load(std::memory_order_relaxed) % 2 == 0);
  std::lock_guard<std::mutex> lock(epochs_mutex);
  epoch->next_free = free_epochs;
  free_epochs = epoch;
}

void wait_for_grace_period() {
  std::lock_guard<std::mutex> lock(epochs_mutex);
  for (ThreadEpoch* epoch = all_epochs; epoch != nullptr; epoch = epoch->next) {
    uint64_t seen = epoch->value.load(std::memory_order_seq_cst);
    while (seen % 2 == 1 && epoch->value.load(std::memory_order_seq_cst) == seen) std::this_thread::yield();
  }
}

void reset_epochs_in_child() {
  new (&epochs_mutex) std::mutex();
  all_epochs = free_epochs = nullptr;
}

}  // namespace tracebraid
