// A recording as columns, in batches of rows, which `columns.py` reads.
//
// The file begins with the length of a text and the text, JSON: the members of an Execution Trace beside its nodes.
// Then come columns: the length of a name and the name, such as "values.type"; the number of rows; then either 0 and an
// int64 for each row, or 1, an int32 for each row, the number of texts, and their lengths and bytes: the int32 is the
// index of the text. All columns of a row are in the same batch, in the same order in each batch. Lengths and numbers
// are uint64.
#pragma once

#include <string>

#include "nodes.h"

namespace tracebraid {

// Throws std::system_error where the file cannot be written.
Written write_columns(Recorder& recorder, const Header& header, const std::string& path);

}  // namespace tracebraid
