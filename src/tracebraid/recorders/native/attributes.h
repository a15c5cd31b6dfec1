// What some functions carry besides inputs and outputs.
#pragma once

#include <ATen/record_function.h>

#include "bytes.h"

namespace tracebraid {

// Where the function is a generated kernel: its backend, and of a Triton kernel its file and stream. False if not.
bool write_kernel(Bytes& out, const at::RecordFunction& function);

// The attributes of a collective. False where nothing is known of it.
bool write_comms(Bytes& out, const at::RecordFunction& function);

}  // namespace tracebraid
