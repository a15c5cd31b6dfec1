// JSON text: where values end, and whether they are valid. Nothing here reads behind the padding of a text.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string_view>
#include <system_error>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Members are recognised by words of little-endian machines: the Python reader serves this one."
#endif

namespace tracebraid {

using Byte = uint8_t;

// A text has so many zero bytes behind its end. No token goes on over a zero byte, so none needs to know the end.
constexpr size_t kPadding = 64;
constexpr int kDepthAtMost = 64;
// Longer numbers are left to the Python reader, as are exponents of more digits.
constexpr int kNumberAtMost = 40;
constexpr int kExponentAtMost = 2;

// Thrown where the Python reader is to decide: damaged, or valid and never written by a recorder.
struct Unusual : std::exception {};

inline uint32_t load4(const Byte* p) {
  uint32_t word = 0;
  memcpy(&word, p, sizeof word);
  return word;
}

inline uint64_t load8(const Byte* p) {
  uint64_t word = 0;
  memcpy(&word, p, sizeof word);
  return word;
}

constexpr uint32_t word_of(const char (&text)[5]) {
  uint32_t word = 0;
  for (int i = 3; i >= 0; i--) word = word << 8 | static_cast<Byte>(text[i]);
  return word;
}

inline bool is_digit(Byte c) { return static_cast<Byte>(c - '0') < 10; }

inline const Byte* skip_space(const Byte* p) {
  if (*p > ' ') return p;
  if (*p == ' ' && p[1] > ' ') return p + 1;
  for (;;) {
    while (load8(p) == 0x2020202020202020ull) p += 8;
    if (*p != ' ' && *p != '\n' && *p != '\r' && *p != '\t') return p;
    p++;
  }
}

// `p` lies behind the opening quote; returns the closing one. `escaped` becomes true where there is an escape.
inline const Byte* string_end(const Byte* p, bool& escaped) {
  for (;;) {
#if defined(__SSE2__)
    for (;;) {
      __m128i text = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
      __m128i quote = _mm_cmpeq_epi8(text, _mm_set1_epi8('"'));
      __m128i escape = _mm_cmpeq_epi8(text, _mm_set1_epi8('\\'));
      __m128i control = _mm_cmpeq_epi8(_mm_max_epu8(text, _mm_set1_epi8(0x1f)), _mm_set1_epi8(0x1f));
      int found = _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, escape), control));
      if (found != 0) {
        p += __builtin_ctz(static_cast<unsigned>(found));
        break;
      }
      p += 16;
    }
#else
    while (*p != '"' && *p != '\\' && *p >= 0x20) p++;
#endif
    if (*p == '"') return p;
    if (*p != '\\') throw Unusual{};
    escaped = true;
    p += p[1] != 0 ? 2 : 1;
  }
}

// From an opening bracket to behind the one that closes it. Of what lies between only strings and brackets are looked
// at.
inline const Byte* brackets_end(const Byte* p) {
  Byte open[kDepthAtMost];
  int depth = 0;
  bool escaped = false;
  for (;; p++) {
#if defined(__SSE2__)
    for (;;) {
      __m128i text = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
      __m128i low = _mm_or_si128(text, _mm_set1_epi8(0x20));  // [ as {, ] as }
      __m128i bracket = _mm_or_si128(_mm_cmpeq_epi8(low, _mm_set1_epi8('{')), _mm_cmpeq_epi8(low, _mm_set1_epi8('}')));
      __m128i other = _mm_or_si128(_mm_cmpeq_epi8(text, _mm_set1_epi8('"')), _mm_cmpeq_epi8(text, _mm_setzero_si128()));
      int found = _mm_movemask_epi8(_mm_or_si128(bracket, other));
      if (found != 0) {
        p += __builtin_ctz(static_cast<unsigned>(found));
        break;
      }
      p += 16;
    }
#endif
    switch (*p) {
      case '"': p = string_end(p + 1, escaped); break;
      case '{':
      case '[':
        if (depth == kDepthAtMost) throw Unusual{};
        open[depth++] = *p;
        break;
      case '}':
      case ']':
        if (depth == 0) throw Unusual{};
        depth--;
        if (open[depth] != *p - 2) throw Unusual{};
        if (depth == 0) return p + 1;
        break;
      case 0: throw Unusual{};
      default: break;
    }
  }
}

// From a value's first byte to behind its last one; whether it is valid says `is_value`.
inline const Byte* value_end(const Byte* p) {
  bool escaped = false;
  switch (*p) {
    case '"': return string_end(p + 1, escaped) + 1;
    case '{':
    case '[': return brackets_end(p);
    case 't':
      if (load4(p) == word_of("true")) return p + 4;
      break;
    case 'n':
      if (load4(p) == word_of("null")) return p + 4;
      break;
    case 'f':
      if (load4(p + 1) == word_of("alse")) return p + 5;
      break;
    default: {
      const Byte* q = p;
      while (is_digit(*q) || *q == '-' || *q == '.' || *q == 'e' || *q == 'E' || *q == '+') q++;
      if (q > p) return q;
    }
  }
  throw Unusual{};
}

// The end of a number as JSON has it.
inline const Byte* number_end(const Byte* p) {
  const Byte* begin = p;
  p += *p == '-' ? 1 : 0;
  const Byte* digits = p;
  while (is_digit(*p)) p++;
  if (p == digits || (*digits == '0' && p - digits > 1)) throw Unusual{};
  if (*p == '.') {
    const Byte* fraction = ++p;
    while (is_digit(*p)) p++;
    if (p == fraction) throw Unusual{};
  }
  if (*p == 'e' || *p == 'E') {
    p++;
    p += *p == '-' || *p == '+' ? 1 : 0;
    const Byte* exponent = p;
    while (is_digit(*p)) p++;
    if (p == exponent || p - exponent > kExponentAtMost) throw Unusual{};
  }
  if (p - begin > kNumberAtMost) throw Unusual{};
  return p;
}

// The size of the character of UTF-8 at `p`, which lies before `end`.
inline int character_size(const Byte* p, const Byte* end) {
  auto follows = [&](int count, Byte lowest, Byte highest) {
    if (end - p <= count || p[1] < lowest || p[1] > highest) throw Unusual{};
    for (int i = 2; i <= count; i++) {
      if ((p[i] & 0xC0) != 0x80) throw Unusual{};
    }
    return count + 1;
  };
  Byte first = *p;
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1, 0x80, 0xBF);
  // The second byte excludes overlong forms, surrogates and code points above U+10FFFF.
  if (first == 0xE0) return follows(2, 0xA0, 0xBF);
  if (first == 0xED) return follows(2, 0x80, 0x9F);
  if (first >= 0xE1 && first <= 0xEF) return follows(2, 0x80, 0xBF);
  if (first == 0xF0) return follows(3, 0x90, 0xBF);
  if (first == 0xF4) return follows(3, 0x80, 0x8F);
  if (first >= 0xF1 && first <= 0xF3) return follows(3, 0x80, 0xBF);
  throw Unusual{};
}

// Checks a string from its opening quote to `end`, which lies behind the closing one. Surrogates are unusual.
inline void check_string(const Byte* p, const Byte* end) {
  for (p++, end--; p < end;) {
    if (*p != '\\') {
      if (*p < 0x20) throw Unusual{};
      p += character_size(p, end);
      continue;
    }
    if (end - p < 2) throw Unusual{};
    if (p[1] != 'u') {
      if (std::string_view("\"\\/bfnrt").find(static_cast<char>(p[1])) == std::string_view::npos) throw Unusual{};
      p += 2;
      continue;
    }
    if (end - p < 6) throw Unusual{};
    for (int i = 2; i < 6; i++) {
      Byte low = p[i] | 0x20;
      if (!is_digit(p[i]) && (low < 'a' || low > 'f')) throw Unusual{};
    }
    if ((p[2] | 0x20) == 'd' && p[3] >= '8') throw Unusual{};
    p += 6;
  }
}

// Checks a value whose extent `value_end` gave; returns its end. Of a nested one the brackets are known to match.
inline const Byte* check_value(const Byte* p, int depth = 0) {
  if (*p == '"') {
    const Byte* end = value_end(p);
    check_string(p, end);
    return end;
  }
  if (*p != '{' && *p != '[') return *p == 't' || *p == 'f' || *p == 'n' ? value_end(p) : number_end(p);
  if (depth == kDepthAtMost) throw Unusual{};
  bool is_object = *p == '{';
  Byte closing = *p + 2;
  p = skip_space(p + 1);
  if (*p == closing) return p + 1;
  for (;;) {
    if (is_object) {
      if (*p != '"') throw Unusual{};
      p = skip_space(check_value(p, depth + 1));
      if (*p != ':') throw Unusual{};
      p = skip_space(p + 1);
    }
    p = skip_space(check_value(p, depth + 1));
    if (*p == closing) return p + 1;
    if (*p != ',') throw Unusual{};
    p = skip_space(p + 1);
  }
}

// Checks that the text from `p` to `end` is one value.
inline void check_text(const Byte* p, const Byte* end) {
  if (check_value(p) != end) throw Unusual{};
}

// Reads an integer of at most 18 digits, and moves `p` behind it; false and unmoved of anything else.
inline bool read_integer(const Byte*& p, int64_t& value) {
  const Byte* q = p;
  bool is_negative = *q == '-';
  q += is_negative ? 1 : 0;
  const Byte* digits = q;
  uint64_t sum = 0;
  while (is_digit(*q) && q - digits < 19) sum = sum * 10 + (*q++ - '0');
  size_t count = q - digits;
  if (count == 0 || count > 18 || (*digits == '0' && count > 1) || *q == '.' || *q == 'e' || *q == 'E') return false;
  p = q;
  value = is_negative ? -static_cast<int64_t>(sum) : static_cast<int64_t>(sum);
  return true;
}

// Reads a number whose double is known to be the nearest one: few digits, and a power of ten that is exact.
inline bool read_double(const Byte*& p, double& value) {
  static constexpr double kPowers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                       1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  const Byte* q = p;
  bool is_negative = *q == '-';
  q += is_negative ? 1 : 0;
  const Byte* digits = q;
  uint64_t sum = 0;
  while (is_digit(*q) && q - digits < 19) sum = sum * 10 + (*q++ - '0');
  size_t whole = q - digits;
  if (whole == 0 || whole > 18 || (*digits == '0' && whole > 1)) return false;
  size_t decimals = 0;
  if (*q == '.') {
    const Byte* fraction = ++q;
    while (is_digit(*q) && whole + (q - fraction) < 19) sum = sum * 10 + (*q++ - '0');
    decimals = q - fraction;
    if (decimals == 0) return false;
  }
  bool is_zero_below = is_negative && sum == 0;
  if (is_digit(*q) || *q == 'e' || *q == 'E' || sum >= 1ull << 53 || is_zero_below) return false;
  p = q;
  value = static_cast<double>(sum) / kPowers[decimals];
  if (is_negative) value = -value;
  return true;
}

// Also reads numbers of more digits, where the library of the compiler can.
inline bool read_decimal(const Byte*& p, double& value) {
  if (read_double(p, value)) return true;
#if defined(__cpp_lib_to_chars)
  if (is_digit(*p) || *p == '-') {
    const Byte* end = number_end(p);
    auto found = std::from_chars(reinterpret_cast<const char*>(p), reinterpret_cast<const char*>(end), value);
    if (found.ec == std::errc() && value != 0) {
      p = end;
      return true;
    }
  }
#endif
  return false;
}

}  // namespace tracebraid
