// A recording, node by node: what is written as JSON (json.cpp) or as columns (columns.cpp).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bytes.h"
#include "recorder.h"

namespace tracebraid {

struct Written {
  uint64_t nodes = 0;   // of operators
  uint64_t open = 0;    // of these, those that had not ended
  uint64_t raised = 0;  // of these, those that ended without their outputs
};

struct Header {
  int64_t pid;
  std::string time;    // of the wall clock
  int64_t start_ts;    // ms, steady clock
  int64_t finish_ts;
};

// An attribute that few nodes have.
struct Attribute {
  std::string_view name;
  bool is_number = false;  // its type; else a string
  bool is_text = true;     // whether the value is one, to be quoted; else it is JSON as it stands
  std::string_view value;
};

// A node of an operator or an annotation, or a root. What it points at lives as long as the call that gives it.
struct Node {
  uint64_t id = 0, parent = 0;
  std::string_view name;
  uint64_t rf_id = 0, fw_parent = 0;
  int64_t seq_id = -1;
  uint64_t scope = 0, tid = 0, fw_tid = 0;
  std::string_view op_schema, kernel_backend, kernel_file, tensor_range;
  Reader inputs{nullptr, 0}, outputs{nullptr, 0};  // their number, and the values
  std::optional<int64_t> stream;                   // of a generated kernel: one more input
  std::vector<Attribute> more;
};

using TakeNode = std::function<void(const Node&)>;

// Gives the threads' roots, the nodes of each thread in the order in which they ended, those that did not end, and the
// process's root. Nobody records any more. To be called once.
Written read_nodes(Recorder& recorder, const TakeNode& take);

}  // namespace tracebraid
