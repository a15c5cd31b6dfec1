// What fork() does to recordings: they go on in the parent and are absent in the child.
#pragma once

#include <atomic>

namespace tracebraid {

// Set in a child whose parent was recording: the parent's callbacks are still registered with PyTorch.
extern std::atomic<bool> has_inherited_callbacks;

// Registers the handlers (pthread_atfork), once.
void register_fork_handlers();

// Removes the parent's callbacks, on a thread of its own. Does nothing where there are none.
void remove_inherited_callbacks();
// Returns when that thread is done.
void wait_for_inherited_callbacks();

}  // namespace tracebraid
