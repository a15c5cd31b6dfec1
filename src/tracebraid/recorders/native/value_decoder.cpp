#include "value_decoder.h"

#include <c10/core/Device.h>
#include <c10/core/ScalarTypeToTypeMeta.h>

#include "json_text.h"
#include "record_format.h"

namespace tracebraid {
namespace {

void add_dimensions(std::string& out, ByteReader& reader, bool known) {
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

std::string device_name(ByteReader& reader) {
  auto type = static_cast<c10::DeviceType>(reader.byte());
  return c10::Device(type, static_cast<c10::DeviceIndex>(reader.signed_number())).str();
}

void add_tensor(Lists& lists, ByteReader& reader) {
  uint8_t flags = reader.byte();
  auto type = c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(reader.byte()));
  RecordedTensor tensor;
  tensor.id = reader.number();
  if (flags & kHasStorage) {
    tensor.storage = reader.number();
    tensor.storage_offset = reader.signed_number();
    tensor.numel = reader.number();
    tensor.itemsize = type.itemsize();
    tensor.device = device_name(reader);
  }
  lists.values += '[';
  for (uint64_t number : {tensor.id, tensor.storage}) {
    add_unsigned(lists.values, number);
    lists.values += ',';
  }
  add_integer(lists.values, tensor.storage_offset);
  for (uint64_t number : {tensor.numel, tensor.itemsize}) {
    lists.values += ',';
    add_unsigned(lists.values, number);
  }
  lists.values += ",\"" + tensor.device + "\"]";
  // Not the standard library's string_view in each version of PyTorch.
  auto name = type.name();
  tensor.dtype.assign(name.data(), name.size());
  lists.types += "Tensor(" + tensor.dtype + ")";
  size_t shape_at = lists.shapes.size();
  add_dimensions(lists.shapes, reader, flags & kHasSizes);
  add_dimensions(lists.strides, reader, flags & kHasStrides);
  if (lists.tensors == nullptr) return;
  tensor.shape = lists.shapes.substr(shape_at);
  lists.tensors->push_back(std::move(tensor));
}

void add_items(Lists& lists, ByteReader& reader, const char* type) {
  uint64_t count = reader.number();
  lists.open(type);
  for (uint64_t i = 0; i < count; i++) {
    if (i != 0) lists.comma();
    add_value(lists, reader);
  }
  reader.number();
  lists.close();
}

// Skips a value, and returns how many elements of its lists were not written.
uint64_t skip(ByteReader& reader) {
  switch (reader.byte()) {
    case kTensor: {
      uint8_t flags = reader.byte();
      reader.byte();
      reader.number();
      if (flags & kHasStorage) {
        for (int i = 0; i < 3; i++) reader.number();
        reader.byte();
        reader.number();
      }
      for (uint8_t dimensions : {kHasSizes, kHasStrides}) {
        uint64_t count = flags & dimensions ? reader.number() : 0;
        for (uint64_t i = 0; i < count; i++) reader.number();
      }
      return 0;
    }
    case kList:
    case kTuple: {
      uint64_t cut = 0;
      for (uint64_t count = reader.number(); count > 0; count--) cut += skip(reader);
      return cut + reader.number();
    }
    case kInt: reader.number(); return 0;
    case kDouble: reader.real(); return 0;
    case kTrue:
    case kFalse:
    case kNone: return 0;
    case kDevice:
      reader.byte();
      reader.number();
      return 0;
    default: reader.text(); return 0;
  }
}

}  // namespace

void add_value(Lists& lists, ByteReader& reader) {
  switch (reader.byte()) {
    case kTensor: return add_tensor(lists, reader);
    case kList: return add_items(lists, reader, "GenericList");
    case kTuple: return add_items(lists, reader, "Tuple");
    case kInt: add_integer(lists.values, reader.signed_number()); return lists.add_scalar("Int");
    case kDouble: add_double(lists.values, reader.real()); return lists.add_scalar("Double");
    case kTrue: lists.values += "true"; return lists.add_scalar("Bool");
    case kFalse: lists.values += "false"; return lists.add_scalar("Bool");
    case kString: add_quoted(lists.values, reader.text()); return lists.add_scalar("String");
    case kDevice: add_quoted(lists.values, device_name(reader)); return lists.add_scalar("Device");
    case kNone: lists.values += "\"<None>\""; return lists.add_scalar("None");
    default: {
      std::string kind(reader.text());
      lists.values += "\"<" + kind + ">\"";
      return lists.add_scalar(kind.c_str());
    }
  }
}

void add_values(Lists& lists, ByteReader reader) {
  uint64_t count = reader.done() ? 0 : reader.number();
  for (uint64_t i = 0; i < count; i++) {
    if (i != 0) lists.comma();
    lists.types += '"';
    add_value(lists, reader);
    lists.types += '"';
  }
}

ByteReader take_values(ByteReader& reader, uint64_t& cut) {
  ByteReader after = reader;
  for (uint64_t count = after.number(); count > 0; count--) cut += skip(after);
  return reader.sub_reader(static_cast<size_t>(after.next() - reader.next()));
}

}  // namespace tracebraid
