// The way from PyTorch's callbacks to the recordings that are on.
#pragma once

#include <memory>

#include "recorder.h"

namespace tracebraid {

// So many recordings can be open in a process at once.
constexpr int kSlots = 4;

// Gives a recording a slot; -1 where none is free.
int attach(std::shared_ptr<Recorder> recorder);
// Whether operators are recorded from now on. Those that were entered while it was on are still seen to their end.
void switch_slot(int slot, bool on);
// Takes the slot back. Afterwards no thread is in one of the recorder's functions, and none enters one.
void detach(int slot);

}  // namespace tracebraid
