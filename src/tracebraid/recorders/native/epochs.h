// Epoch-based reclamation of recorders: a recorder is freed when no thread can be inside it any more.
//
// Each thread that records has an epoch, a counter that is odd while the thread is inside a recorder. EpochGuard makes
// it odd before the thread reads the pointer to the recorder, and even when the thread has left. The thread that ends a
// recording first unpublishes the pointer (callbacks.cpp), then waits for a grace period: until each epoch was even
// once or has changed. A thread that entered after that read a null pointer; so the recorder has no readers left.
//
// Memory order: the guard's store and the load of the pointer that follows, and the store of null and the loads of the
// epochs that follow, are all sequentially consistent. In their single order either the guard's store comes before the
// grace period's load, which then sees an odd epoch and waits; or it comes after, and then so does the guard's load of
// the pointer, which gives null. The guard's last store is a release, which the grace period's load acquires: all that
// the thread did inside happens before the recorder is read or freed.
#pragma once

#include <atomic>
#include <cstdint>

namespace tracebraid {

// On a cache line of its own, so that threads do not wait for each other. Epochs are never freed: those of ended
// threads go to new threads.
struct alignas(64) ThreadEpoch {
  std::atomic<uint64_t> value{0};    // odd: inside. Written by the thread that holds the epoch
  ThreadEpoch* next = nullptr;       // in the list of all; guarded by the mutex of epochs.cpp, a leaf of the lock order
  ThreadEpoch* next_free = nullptr;  // likewise
};

// An epoch for this thread, to be released when the thread ends.
ThreadEpoch* acquire_epoch();
void release_epoch(ThreadEpoch* epoch);

class EpochGuard {
 public:
  explicit EpochGuard(ThreadEpoch& epoch) : epoch_(epoch), entered_(epoch.value.load(std::memory_order_relaxed) + 1) {
    epoch_.value.store(entered_, std::memory_order_seq_cst);
  }
  ~EpochGuard() { epoch_.value.store(entered_ + 1, std::memory_order_release); }
  EpochGuard(const EpochGuard&) = delete;
  EpochGuard& operator=(const EpochGuard&) = delete;

 private:
  ThreadEpoch& epoch_;
  const uint64_t entered_;
};

// Returns when each thread has been outside. The caller must not be inside.
void wait_for_grace_period();

// In the child of a fork: forgets the parent's epochs. Their threads do not exist here, and their mutex may be locked.
void reset_epochs_in_child();

}  // namespace tracebraid
