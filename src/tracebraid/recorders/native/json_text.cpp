#include "json_text.h"

#include <charconv>
#include <cmath>

namespace tracebraid {
namespace {

template <typename Number>
void add_number(std::string& out, Number value) {
  char text[32];
  out.append(text, std::to_chars(text, text + sizeof text, value).ptr);
}

// The size in bytes of the character at the start of `text`; 0 where it is not UTF-8.
size_t character_size(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  auto follows = [&](size_t count, unsigned char lowest, unsigned char highest) {
    if (text.size() <= count || byte(1) < lowest || byte(1) > highest) return false;
    for (size_t i = 2; i <= count; i++) {
      if ((byte(i) & 0xC0) != 0x80) return false;
    }
    return true;
  };
  unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1, 0x80, 0xBF) ? 2 : 0;
  // The second byte excludes overlong forms, surrogates and code points above U+10FFFF.
  if (first == 0xE0) return follows(2, 0xA0, 0xBF) ? 3 : 0;
  if (first == 0xED) return follows(2, 0x80, 0x9F) ? 3 : 0;
  if (first >= 0xE1 && first <= 0xEF) return follows(2, 0x80, 0xBF) ? 3 : 0;
  if (first == 0xF0) return follows(3, 0x90, 0xBF) ? 4 : 0;
  if (first >= 0xF1 && first <= 0xF3) return follows(3, 0x80, 0xBF) ? 4 : 0;
  if (first == 0xF4) return follows(3, 0x80, 0x8F) ? 4 : 0;
  return 0;
}

void add_control(std::string& out, unsigned char value) {
  static const char* const digits = "0123456789abcdef";
  switch (value) {
    case '\n': out += "\\n"; return;
    case '\t': out += "\\t"; return;
    case '\r': out += "\\r"; return;
    case '\b': out += "\\b"; return;
    case '\f': out += "\\f"; return;
    default:
      out += "\\u00";
      out += digits[value >> 4];
      out += digits[value & 15];
  }
}

}  // namespace

void add_integer(std::string& out, int64_t value) { add_number(out, value); }
void add_unsigned(std::string& out, uint64_t value) { add_number(out, value); }

void add_double(std::string& out, double value) {
  if (std::isnan(value)) {
    out += std::signbit(value) ? "\"-nan\"" : "\"nan\"";
  } else if (std::isinf(value)) {
    out += value > 0 ? "\"inf\"" : "\"-inf\"";
  } else {
    size_t before = out.size();
    add_number(out, value);
    // Without a point, readers take it for an integer.
    if (out.find_first_of(".e", before) == std::string::npos) out += ".0";
  }
}

void add_quoted(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    auto first = static_cast<unsigned char>(text[0]);
    size_t size = 1;
    if (first == '"' || first == '\\') {
      out += '\\';
      out += static_cast<char>(first);
    } else if (first < 0x20) {
      add_control(out, first);
    } else if ((size = character_size(text)) > 0) {
      out.append(text.substr(0, size));
    } else {
      size = 1;
      out += "\xEF\xBF\xBD";
    }
    text.remove_prefix(size);
  }
  out += '"';
}

}  // namespace tracebraid
