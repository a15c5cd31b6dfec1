// Pieces of JSON, appended to a string.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tracebraid {

void add_integer(std::string& out, int64_t value);
void add_unsigned(std::string& out, uint64_t value);
// The shortest text that reads back as the same number; "nan", "inf" and "-inf" are strings, as JSON has no such.
void add_double(std::string& out, double value);
// What is no UTF-8 becomes U+FFFD.
void add_quoted(std::string& out, std::string_view text);

}  // namespace tracebraid
