// Decodes recorded values into the form that an Execution Trace has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bytes.h"

namespace tracebraid {

// A tensor among the values, with the texts that the lists have for it.
struct RecordedTensor {
  uint64_t id = 0, storage = 0;
  int64_t storage_offset = 0;
  uint64_t numel = 0, itemsize = 0;
  std::string device, dtype, shape;
};

// The four lists that describe inputs, or outputs.
struct Lists {
  std::string values, shapes, types, strides;
  std::vector<RecordedTensor>* tensors = nullptr;  // collects each tensor, where set

  void open(const char* type) {
    values += '[';
    shapes += '[';
    types += type;
    types += '[';
    strides += '[';
  }
  void comma() {
    values += ',';
    shapes += ',';
    types += ',';
    strides += ',';
  }
  void close() {
    values += ']';
    shapes += ']';
    types += ']';
    strides += ']';
  }
  void add_scalar(const char* type) {
    shapes += "[]";
    types += type;
    strides += "[]";
  }
  void clear() {
    for (auto* list : {&values, &shapes, &types, &strides}) list->clear();
  }
};

// The next value, its type without quotes.
void add_value(Lists& lists, ByteReader& reader);

// The values of a function, each type between quotes. An empty reader has none.
void add_values(Lists& lists, ByteReader reader);

// A reader of the number of a function's values and the values; they are skipped in `reader`. Adds to `cut` how many
// elements of their lists were not written.
ByteReader take_values(ByteReader& reader, uint64_t& cut);

}  // namespace tracebraid
