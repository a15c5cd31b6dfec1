// The process group that an operator of c10d is given.
#pragma once

#include "bytes.h"
#include "value_encoder.h"

namespace tracebraid {

// The attributes of the first process group among the inputs: name, description, size, ranks and backend, as
// write_comms writes them. False where there is none, or PyTorch was built without distributed. Calls no Python and
// takes no lock: a process group written in Python is known by its size and description alone.
bool write_process_group(Bytes& out, Values inputs);

}  // namespace tracebraid
