// The format of records, shared by the writers (recorder.cpp, value_encoder.cpp, attributes.cpp) and the readers
// (nodes.cpp, value_decoder.cpp).
//
// A chunk holds records of one thread, in the order in which they were made: each a length (uint32) and its bytes.
//
//   enter: kEnter, flags, scope, rf_id, parent, fw_parent, name, [text of the name], seq (signed), fw_tid,
//          count, values, [ranges], [kernel_backend, kernel_file, has_stream, stream (signed)],
//          [attributes of the process group]
//   exit:  kExit, flags, rf_id, count, values, [attributes of the collective]
//   attributes: count, (attribute, is_number, is_text, value)...
//
// Numbers are written by Bytes::number; what is in brackets is present if its flag is set.
#pragma once

#include <cstdint>

namespace tracebraid {

// Ids of nodes follow from PyTorch's rf_ids, which count functions in the order of their starts: a function's is four
// times its rf_id, a thread's lies just below its first function's. Tensors and storages have odd ids above 1.
constexpr uint64_t kProcessNode = 1;
constexpr uint64_t function_node(uint64_t rf_id) { return 4 * rf_id; }
constexpr bool is_function_node(uint64_t id) { return id != 0 && id % 4 == 0; }
constexpr uint64_t thread_node(uint64_t first_rf_id) { return 4 * first_rf_id - 2; }

enum Record : uint8_t { kEnter = 1, kExit = 2 };

enum EnterFlag : uint8_t { kNameInline = 1, kRanges = 2, kKernel = 4, kProcessGroup = 8 };
enum ExitFlag : uint8_t { kRaised = 1, kComms = 2 };

enum Value : uint8_t {
  kTensor = 1,  // flags, dtype, id, [storage, offset (signed), numel, device, index (signed)], [sizes], [strides]
  kList,        // count (two bytes), values, how many more it has
  kTuple,       // likewise
  kInt,         // signed
  kDouble,      // real
  kTrue,
  kFalse,
  kString,  // text
  kDevice,  // type, index (signed)
  kNone,
  kOther,  // kind, as text
};

enum TensorFlag : uint8_t { kHasStorage = 1, kHasSizes = 2, kHasStrides = 4 };

// Longer lists are cut to this many elements, as PyTorch's recorder does.
constexpr uint64_t kMaxListElements = 4097;
// Lists within lists are cut too where a record has reached this many bytes: some 300,000 numbers.
constexpr uint64_t kMaxListBytes = 1 << 20;

}  // namespace tracebraid
