// Loops of `chakra.wire.fields` over the bytes of Chakra traces, of which nothing is trusted: the fields of messages,
// numbers in packed lists, and equal texts.
#include "loops.h"

namespace {

using tracebraid::Bytes;
using tracebraid::Ints;
using tracebraid::Items;

int64_t fields_decompose(Bytes data, Ints spans, Items<int64_t> found, Items<bool> readable) {
  int64_t count = 0;
  for (int64_t message = 0; message < spans.rows(); message++) {
    int64_t at = spans(message, 0);
    const int64_t end = spans(message, 1), before = count;
    int64_t tag = 0, kind = 0;
    bool minimal = true;
    // A varint each time: a tag, or the value or length behind one.
    while (readable[message] && (tag != 0 || at < end)) {
      uint64_t bits = 0;
      int shift = 0;
      while (at < end && shift < 63 && data[at] >= 0x80) {
        bits |= static_cast<uint64_t>(data[at] & 0x7F) << shift;
        at++;
        shift += 7;
      }
      const uint64_t last = at < end ? data[at] : 0x80;
      readable[message] = last < (shift == 63 ? 2u : 0x80u);
      if (shift > 0 && last == 0) minimal = false;
      auto number = static_cast<int64_t>(bits | last << shift);
      at++;
      int64_t size = 0;
      if (tag == 0) {
        tag = number;
        kind = number & 7;
        if (!minimal || tag < 8 || tag >= int64_t{1} << 32 || kind == 3 || kind == 4 || kind > 5) {
          readable[message] = false;
        }
        if (kind == 0 || kind == 2) continue;
        size = kind == 1 ? 8 : 4;
        number = 0;
      } else if (kind == 2) {
        size = number;
        number = at;
      }
      if (size < 0 || size > end - at) {
        readable[message] = false;
        break;
      }
      for (int64_t byte = 0; byte < (kind == 2 ? 0 : size); byte++) {
        number = static_cast<int64_t>(static_cast<uint64_t>(number) | uint64_t{data[at + byte]} << (8 * byte));
      }
      at += size;
      if (count < found.width()) {
        found(0, count) = message;
        found(1, count) = tag;
        found(2, count) = number;
        found(3, count) = at;
        found(4, count) = minimal ? 1 : 0;
      }
      count++;
      tag = 0;
      minimal = true;
    }
    if (!readable[message]) count = before;
  }
  return count;
}
TRACEBRAID_LOOP(fields_decompose)

int64_t fields_unpack(Bytes data, Ints spans, Items<int64_t> found, Items<bool> flags) {
  int64_t count = 0;
  for (int64_t row = 0; row < spans.rows(); row++) {
    uint64_t number = 0;
    int shift = 0;
    for (int64_t at = spans(row, 0); at < spans(row, 1); at++) {
      if (shift == 63 && data[at] > 1) break;
      number |= static_cast<uint64_t>(data[at] & 0x7F) << shift;
      shift += 7;
      if (data[at] >= 0x80) continue;
      if (data[at] == 0 && shift > 7) flags(1, row) = false;
      found(0, count) = row;
      found(1, count) = static_cast<int64_t>(number);
      count++;
      number = 0;
      shift = 0;
    }
    flags(0, row) = shift == 0;
  }
  return count;
}
TRACEBRAID_LOOP(fields_unpack)

int64_t fields_number(Bytes data, Ints spans, Items<int64_t> slots, Items<int64_t> first, Items<int64_t> number) {
  int64_t count = 0;
  const int64_t last = slots.size() - 1;
  for (int64_t row = 0; row < spans.rows(); row++) {
    const int64_t start = spans(row, 0), size = spans(row, 1) - start;
    // FNV-1a, of 64 bits.
    uint64_t mixed = 0xCBF29CE484222325;
    for (int64_t at = 0; at < size; at++) mixed = (mixed ^ data[start + at]) * 0x100000001B3;
    auto slot = static_cast<int64_t>((mixed ^ (mixed >> 32)) & static_cast<uint64_t>(last));
    while (true) {
      if (slots[slot] < 0) {
        slots[slot] = count;
        first[count++] = row;
      }
      const int64_t known = slots[slot], other = spans(first[known], 0);
      bool same = spans(first[known], 1) - other == size;
      for (int64_t at = 0; same && at < size; at++) same = data[other + at] == data[start + at];
      if (same) {
        number[row] = known;
        break;
      }
      slot = (slot + 1) & last;
    }
  }
  return count;
}
TRACEBRAID_LOOP(fields_number)

}  // namespace
