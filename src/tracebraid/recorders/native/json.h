// A recording as an Execution Trace: JSON, schema 1.1.1-chakra.0.0.4.
#pragma once

#include <string>

#include "nodes.h"

namespace tracebraid {

// Throws std::system_error where the file cannot be written.
Written write_json(Recorder& recorder, const Header& header, const std::string& path);

}  // namespace tracebraid
