// A recording as an Execution Trace: JSON, schema 1.1.1-chakra.0.0.4.
#pragma once

#include <cstdint>
#include <string>

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

// Writes the recording's nodes, each thread's in the order in which they ended. Nobody records any more.
// Throws std::system_error where the file cannot be written.
Written write_json(Recorder& recorder, const Header& header, const std::string& path);

}  // namespace tracebraid
