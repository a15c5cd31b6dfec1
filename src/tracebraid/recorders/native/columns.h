// A recording as columns, piece by piece, for `columns.py` to read.
//
// The file begins with the length of a text and the text, JSON: the members of an Execution Trace beside its nodes. Then
// come columns: the length of a name and the name, such as "values.type"; the number of rows; 0 and an int64 for each, or
// 1, an int32 for each, the number of texts, and their lengths and bytes: the int32 says which text it is. A row's
// columns are in the same piece; a piece's columns come in the same order in each. Lengths and numbers are uint64.
#pragma once

#include <string>

#include "nodes.h"

namespace tracebraid {

// Throws std::system_error where the file cannot be written.
Written write_columns(Recorder& recorder, const Header& header, const std::string& path);

}  // namespace tracebraid
