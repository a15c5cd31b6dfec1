// Appends JSON values to a string.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tracebraid {

void add_integer(std::string& out, int64_t value);
void add_unsigned(std::string& out, uint64_t value);
// The shortest text that reads back as the same number. Strings "nan", "inf" and "-inf", which JSON has no numbers for.
void add_double(std::string& out, double value);
// Bytes that are not UTF-8 become U+FFFD.
void add_quoted(std::string& out, std::string_view text);

}  // namespace tracebraid
