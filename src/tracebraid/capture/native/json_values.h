// Recorded values as an Execution Trace has them.
#pragma once

#include <string>

#include "bytes.h"

namespace tracebraid {

// The four lists that describe inputs, or outputs.
struct Lists {
  std::string values, shapes, types, strides;

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

// The values of a function, each type between quotes.
void add_values(Lists& lists, Reader& reader);

}  // namespace tracebraid
