// IValues as bytes: what an operator was given, and what it gave.
#pragma once

#include <string>
#include <utility>

#include <ATen/record_function.h>

#include "bytes.h"
#include "identity.h"

namespace tracebraid {

// Of constants or not, as RecordFunction has it.
using Values = decltype(std::declval<const at::RecordFunction&>().inputs());

// Writes a value. Nothing is kept alive, and no data of a tensor is read.
void write_value(Bytes& out, const c10::IValue& value, Identities& identities, SeenLately& seen);

// The smallest and largest number of each tensor of integers among values, as PyTorch's `tensor_range` has it:
// {"0":[0,9]}, counted over all tensors; empty where there is none. Reads the tensors' data.
std::string integral_ranges(Values values);

}  // namespace tracebraid
