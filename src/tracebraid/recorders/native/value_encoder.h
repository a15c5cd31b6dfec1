// Encodes IValues: the inputs and outputs of an operator.
#pragma once

#include <string>
#include <utility>

#include <ATen/record_function.h>

#include "bytes.h"
#include "identity.h"

namespace tracebraid {

// The type of RecordFunction::inputs(), which differs between versions of PyTorch.
using Values = decltype(std::declval<const at::RecordFunction&>().inputs());

// Takes no strong reference and reads no tensor's data.
void write_value(Bytes& out, const c10::IValue& value, Identities& identities, IdentityCache& cache);

// The smallest and largest number of each tensor of integers among values, as PyTorch's `tensor_range` has it:
// {"0":[0,9]}, counted over all tensors; empty where there is none. Reads the tensors' data.
std::string integral_ranges(Values values);

// Writes the numbers of each tensor of integers among values, as PyTorch does: to `<prefix><number>.dat`.
void save_integers(const std::string& prefix, Values values);

}  // namespace tracebraid
