#include "json_values.h"

#include <c10/core/Device.h>
#include <c10/core/ScalarTypeToTypeMeta.h>

#include "format.h"
#include "json_text.h"

namespace tracebraid {
namespace {

void add_dimensions(std::string& out, Reader& reader, bool known) {
  out += '[';
  if (known) {
    uint64_t count = reader.number();
    for (uint64_t i = 0; i < count; i++) {
      if (i != 0) out += ',';
      add_integer(out, reader.signed_number());
    }
  }
  out += ']';
}

std::string device_name(Reader& reader) {
  auto type = static_cast<c10::DeviceType>(reader.byte());
  return c10::Device(type, static_cast<c10::DeviceIndex>(reader.signed_number())).str();
}

void add_tensor(Lists& lists, Reader& reader) {
  uint8_t flags = reader.byte();
  auto dtype = c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(reader.byte()));
  lists.values += '[';
  add_unsigned(lists.values, reader.number());
  if (flags & kHasStorage) {
    lists.values += ',';
    add_unsigned(lists.values, reader.number());
    lists.values += ',';
    add_integer(lists.values, reader.signed_number());
    lists.values += ',';
    add_unsigned(lists.values, reader.number());
    lists.values += ',';
    add_unsigned(lists.values, dtype.itemsize());
    lists.values += ",\"";
    lists.values += device_name(reader);
    lists.values += "\"]";
  } else {
    lists.values += ",0,0,0,0,\"\"]";
  }
  lists.types += "Tensor(";
  // Not always the standard library's string_view.
  auto name = dtype.name();
  lists.types.append(name.data(), name.size());
  lists.types += ')';
  add_dimensions(lists.shapes, reader, flags & kHasSizes);
  add_dimensions(lists.strides, reader, flags & kHasStrides);
}

void add_value(Lists& lists, Reader& reader);

void add_items(Lists& lists, Reader& reader, const char* type) {
  uint64_t count = reader.number();
  lists.open(type);
  for (uint64_t i = 0; i < count; i++) {
    if (i != 0) lists.comma();
    add_value(lists, reader);
  }
  lists.close();
}

void add_value(Lists& lists, Reader& reader) {
  switch (reader.byte()) {
    case kTensor: return add_tensor(lists, reader);
    case kList: return add_items(lists, reader, "GenericList");
    case kTuple: return add_items(lists, reader, "Tuple");
    case kInt:
      add_integer(lists.values, reader.signed_number());
      return lists.add_scalar("Int");
    case kDouble:
      add_double(lists.values, reader.real());
      return lists.add_scalar("Double");
    case kTrue:
      lists.values += "true";
      return lists.add_scalar("Bool");
    case kFalse:
      lists.values += "false";
      return lists.add_scalar("Bool");
    case kString:
      add_quoted(lists.values, reader.text());
      return lists.add_scalar("String");
    case kDevice:
      add_quoted(lists.values, device_name(reader));
      return lists.add_scalar("Device");
    case kNone:
      lists.values += "\"<None>\"";
      return lists.add_scalar("None");
    default: {
      std::string kind(reader.text());
      lists.values += "\"<" + kind + ">\"";
      return lists.add_scalar(kind.c_str());
    }
  }
}

}  // namespace

void add_values(Lists& lists, Reader& reader) {
  uint64_t count = reader.number();
  for (uint64_t i = 0; i < count; i++) {
    if (i != 0) lists.comma();
    lists.types += '"';
    add_value(lists, reader);
    lists.types += '"';
  }
}

}  // namespace tracebraid
