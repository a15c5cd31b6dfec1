// PyTorch's callbacks, and the recorder that a call of one goes to.
#pragma once

#include <memory>

#include "recorder.h"

namespace tracebraid {

// Gives a recorder a slot, disabled at first; -1 where all are taken.
int attach(std::shared_ptr<Recorder> recorder);
// Whether functions are recorded from now on. Of those that were entered while it was enabled the end is still
// recorded.
void set_enabled(int slot, bool enabled);
// Frees the slot. When it returns, no thread is inside the recorder, and none enters it.
void detach(int slot);

// In the child of a fork: the thread's epoch is the parent's.
void forget_epoch_of_this_thread();

}  // namespace tracebraid
