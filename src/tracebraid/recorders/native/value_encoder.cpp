#include "value_encoder.h"

#include <algorithm>
#include <fstream>

#include <ATen/ops/aminmax.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

#include "python_error.h"
#include "record_format.h"

namespace tracebraid {
namespace {

void write_dimensions(Bytes& out, c10::IntArrayRef dimensions) {
  out.reserve((dimensions.size() + 1) * Bytes::kNumber);
  out.number(dimensions.size());
  for (int64_t size : dimensions) out.signed_number(size);
}

// Nested tensors have no single size or stride, symbolic sizes are not numbers.
uint8_t available_fields(const c10::TensorImpl& tensor, bool defined) {
  if (!defined || tensor.has_symbolic_sizes_strides()) return 0;
  uint8_t flags = tensor.unsafe_storage() ? kHasStorage : 0;
  if (tensor.is_nested()) return flags;
  flags |= kHasSizes;
  // Of the other layouts only COO has strides that can be read.
  if (tensor.layout() == c10::kStrided || tensor.layout() == c10::kSparse) flags |= kHasStrides;
  return flags;
}

int64_t elements_of(const c10::TensorImpl& tensor, uint8_t flags) {
  if (flags & kHasSizes) return tensor.numel();
  size_t itemsize = tensor.itemsize();
  return itemsize ? static_cast<int64_t>(tensor.storage().nbytes() / itemsize) : 0;
}

void write_tensor(Bytes& out, const at::Tensor& tensor, Identities& identities, IdentityCache& cache) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  uint8_t flags = available_fields(impl, tensor.defined());
  caffe2::TypeMeta type = impl.dtype();
  auto dtype = type.isScalarType() ? type.toScalarType() : c10::ScalarType::Undefined;
  out.reserve(8 + 6 * Bytes::kNumber);
  out.byte(kTensor);
  out.byte(flags);
  out.byte(static_cast<uint8_t>(dtype));
  if (!(flags & kHasStorage)) {
    out.number(identities.of_tensor_alone(tensor));
  } else {
    Ids ids = identities.of_tensor_with_storage(impl, cache);
    out.number(ids.tensor);
    out.number(ids.storage);
    out.signed_number(impl.storage_offset());
    out.number(static_cast<uint64_t>(elements_of(impl, flags)));
    auto device = impl.device();
    out.byte(static_cast<uint8_t>(device.type()));
    out.signed_number(device.index());
  }
  if (flags & kHasSizes) write_dimensions(out, impl.sizes());
  if (flags & kHasStrides) write_dimensions(out, impl.strides());
}

template <typename Items>
void write_list(Bytes& out, Value kind, const Items& items, Identities& identities, IdentityCache& cache) {
  out.reserve(3);
  out.byte(kind);
  size_t count_at = out.size();
  out.byte(0);
  out.byte(0);
  size_t count = 0;
  while (count < items.size() && count < kMaxListElements && out.size() < kMaxListBytes) {
    write_value(out, items[count++], identities, cache);
  }
  static_assert(kMaxListElements < 1 << 14);
  out.set(count_at, static_cast<uint8_t>(count | 0x80));
  out.set(count_at + 1, static_cast<uint8_t>(count >> 7));
  out.reserve(Bytes::kNumber);
  out.number(items.size() - count);
}

void write_known(Bytes& out, const c10::IValue& value, Identities& identities, IdentityCache& cache) {
  if (value.isTensor()) return write_tensor(out, value.toTensor(), identities, cache);
  if (value.isList()) return write_list(out, kList, value.toListRef(), identities, cache);
  if (value.isTuple()) return write_list(out, kTuple, value.toTupleRef().elements(), identities, cache);
  out.reserve(3 + 2 * Bytes::kNumber);
  if (value.isNone()) {
    out.byte(kNone);
  } else if (value.isInt()) {
    out.byte(kInt);
    out.signed_number(value.toInt());
  } else if (value.isBool()) {
    out.byte(value.toBool() ? kTrue : kFalse);
  } else if (value.isDouble()) {
    out.byte(kDouble);
    out.real(value.toDouble());
  } else if (value.isString()) {
    out.byte(kString);
    out.text(value.toStringRef());
  } else if (value.isDevice()) {
    out.byte(kDevice);
    out.byte(static_cast<uint8_t>(value.toDevice().type()));
    out.signed_number(value.toDevice().index());
  } else {
    out.byte(kOther);
    out.text(value.tagKind());
  }
}

bool has_readable_integers(const at::Tensor& tensor) {
  if (!tensor.defined() || !(available_fields(*tensor.unsafeGetTensorImpl(), true) & kHasSizes)) return false;
  return tensor.layout() == c10::kStrided && tensor.has_storage() && tensor.device().type() != c10::kMeta &&
         !tensor.unsafeGetTensorImpl()->is_python_dispatch() &&
         !tensor.key_set().has_any(c10::functorch_transforms_ks) &&
         c10::isIntegralType(tensor.scalar_type(), /*includeBool=*/false) && tensor.numel() > 0;
}

// Calls `action` with each tensor of integers in a value, and its number among all tensors.
template <typename Action>
void visit_integers(const c10::IValue& value, size_t& tensors, const Action& action) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    size_t number = tensors++;
    if (has_readable_integers(tensor)) action(tensor, number);
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) visit_integers(item, tensors, action);
  } else if (value.isTuple()) {
    for (const c10::IValue& item : value.toTupleRef().elements()) visit_integers(item, tensors, action);
  }
}

// The same for several values. Operators that `action` runs are not recorded.
template <typename Action>
void visit_integers(Values values, const Action& action) {
  size_t tensors = 0;
  try {
    at::DisableRecordFunctionGuard unrecorded;
    c10::impl::ExcludeDispatchKeyGuard below_autograd(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
    for (const c10::IValue& value : values) visit_integers(value, tensors, action);
  } catch (const std::exception&) {
    // No kernel for this type or device: what there is so far is right.
  }
}

}  // namespace

void write_value(Bytes& out, const c10::IValue& value, Identities& identities, IdentityCache& cache) {
  size_t before = out.size();
  try {
    write_known(out, value, identities, cache);
  } catch (const std::exception& error) {
    // A tensor class written in Python may raise when its sizes are read.
    if (dynamic_cast<const c10::Error*>(&error) == nullptr) clear_python_error();
    out.truncate(before);
    out.reserve(1);
    out.byte(kOther);
    out.text(value.tagKind());
  }
}

std::string integral_ranges(Values values) {
  std::string ranges;
  visit_integers(values, [&](const at::Tensor& tensor, size_t number) {
    auto [smallest, largest] = at::aminmax(tensor);
    ranges += (ranges.empty() ? "{\"" : ",\"") + std::to_string(number) + "\":[" +
              std::to_string(smallest.item<int64_t>()) + "," + std::to_string(largest.item<int64_t>()) + "]";
  });
  return ranges.empty() ? ranges : ranges + "}";
}

void save_integers(const std::string& prefix, Values values) {
  visit_integers(values, [&](const at::Tensor& tensor, size_t number) {
    // In the order of the memory, as PyTorch has it, where that has each number once.
    at::Tensor dense = tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous();
    at::Tensor read = dense.cpu();
    std::ofstream file(prefix + std::to_string(number) + ".dat", std::ios::binary);
    file.write(static_cast<const char*>(read.data_ptr()), static_cast<std::streamsize>(read.nbytes()));
  });
}

}  // namespace tracebraid
