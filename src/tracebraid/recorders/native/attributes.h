// What some functions have besides inputs and outputs: generated kernels, and collectives.
#pragma once

#include <ATen/record_function.h>

#include "bytes.h"

namespace tracebraid {

// Of a generated kernel its backend, and of a Triton kernel also its file and stream. False for other functions.
bool write_kernel(Bytes& out, const at::RecordFunction& function);

// The attributes of a collective. False where PyTorch has none.
bool write_comms(Bytes& out, const at::RecordFunction& function);

}  // namespace tracebraid
