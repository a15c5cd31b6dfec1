// A recording, node by node: what is written as JSON (json.cpp) or as columns (columns.cpp).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bytes.h"

namespace tracebraid {

class Recorder;

struct Written {
  uint64_t nodes = 0;   // of functions
  uint64_t open = 0;    // of these, those that had not ended
  uint64_t raised = 0;  // of these, those that ended without their outputs
};

struct Header {
  int64_t pid;
  std::string time;  // of the wall clock
  int64_t start_ts;  // ms, steady clock
  int64_t finish_ts;
};

// An attribute that few nodes have.
struct Attribute {
  std::string_view name;
  bool is_number = false;  // its type is uint64, else string
  bool is_text = true;     // the value is to be quoted, else it is JSON
  std::string_view value;
};

// A node of an operator or an annotation, or a root. Its texts and readers are valid during the call that passes it.
struct Node {
  uint64_t id = 0, parent = 0;
  std::string_view name;
  uint64_t rf_id = 0, fw_parent = 0;
  int64_t seq_id = -1;
  uint64_t scope = 0, tid = 0, fw_tid = 0;
  std::string_view op_schema, kernel_backend, kernel_file, tensor_range;
  ByteReader inputs{nullptr, 0}, outputs{nullptr, 0};  // the number of values, and the values
  std::optional<int64_t> stream;                       // of a generated kernel: one more input
  uint64_t cut = 0;                                    // elements of their lists that were not written
  std::vector<Attribute> more;
};

using ConsumeNode = std::function<void(const Node&)>;

// Gives the threads' roots, the nodes of each thread in the order in which they ended, those that did not end, and the
// process's root. Call it once, when no thread records any more.
Written read_nodes(Recorder& recorder, const ConsumeNode& consume);

}  // namespace tracebraid
