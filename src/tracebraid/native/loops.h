// Loops over arrays that Python calls: functions of arrays and numbers, each exported by TRACEBRAID_LOOP, with a twin
// of the same name in Python (`loops.py`).
#pragma once

#include <cassert>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "columns.h"

namespace tracebraid {

// An argument or a result, as `loops.py` has it.
struct Value {
  int64_t bits;   // the address of an array's items; a whole number; the bits of a float
  int64_t size;   // an array's items
  int64_t width;  // items of its last dimension
  int64_t type;
};

enum Type : uint8_t { kInt64, kInt32, kInt8, kUint8, kBool, kFloat64, kUint32, kWhole, kFloat, kReadOnly = 16 };

template <typename Item>
constexpr Type type_of() {
  if constexpr (std::is_same_v<Item, int64_t>) return kInt64;
  if constexpr (std::is_same_v<Item, int32_t>) return kInt32;
  if constexpr (std::is_same_v<Item, int8_t>) return kInt8;
  if constexpr (std::is_same_v<Item, uint8_t>) return kUint8;
  if constexpr (std::is_same_v<Item, bool>) return kBool;
  if constexpr (std::is_same_v<Item, double>) return kFloat64;
}

class Reader;

// An array of the caller's, in rows of `width` items if it has two dimensions.
template <typename Item>
class Items {
 public:
  Items(Item* data, int64_t size, int64_t width) : data_(data), size_(size), width_(width) {}
  static Items from(Reader& reader);

  int64_t size() const { return size_; }
  int64_t width() const { return width_; }
  int64_t rows() const { return width_ == 0 ? 0 : size_ / width_; }
  Item* begin() const { return data_; }
  Item* end() const { return data_ + size_; }
  Item& operator[](int64_t at) const {
    assert(at >= 0 && at < size_);
    return data_[at];
  }
  Item& operator()(int64_t row, int64_t column) const {
    assert(column >= 0 && column < width_);
    return (*this)[row * width_ + column];
  }

 private:
  Item* data_;
  int64_t size_, width_;
};

using Bytes = Items<const uint8_t>;
using Codes = Items<const uint8_t>;
using Flags = Items<const bool>;
using Floats = Items<const double>;
using Ids = Items<const int32_t>;
using Ints = Items<const int64_t>;

template <typename Item>
Array<Item> filled(int64_t size, Item item) {
  Array<Item> made;
  made.fill(static_cast<size_t>(size), item);
  return made;
}

// Takes arguments in turn. One of another type than the function has makes it refuse the call; but arrays of whole
// numbers that are only read may be wider or narrower, as long as these fit.
class Reader {
 public:
  Reader(const Value* values, int64_t count) : values_(values), left_(count) {}
  bool fits() const { return fits_ && left_ == 0; }

  template <typename Argument>
  Argument take() {
    return Argument::from(*this);
  }
  Value next(int64_t type) {
    constexpr Value kNone{0, 0, 1, kWhole};
    fits_ = fits_ && left_ > 0 && (values_->type == type || values_->type == (type | kReadOnly));
    if (!fits_) return kNone;
    left_--;
    return *values_++;
  }
  bool may_write() const { return fits_ && (values_[-1].type & kReadOnly) == 0; }
  void refuse() { fits_ = false; }
  template <typename Number>
  Items<const Number> converted() {
    if (left_ > 0) {
      switch (values_->type & ~kReadOnly) {
        case kInt64: return converted<Number, int64_t>();
        case kInt32: return converted<Number, int32_t>();
        case kUint32: return converted<Number, uint32_t>();
        default: break;
      }
    }
    refuse();
    return {nullptr, 0, 1};
  }

 private:
  template <typename Number, typename Given>
  Items<const Number> converted() {
    const Value value = *values_++;
    left_--;
    const auto* items = reinterpret_cast<const Given*>(value.bits);
    if constexpr (std::is_same_v<Number, Given>) {
      return {items, value.size, value.width};
    } else {
      auto* made = new Number[static_cast<size_t>(value.size)];
      made_.emplace_back(made, [](void* each) { delete[] static_cast<Number*>(each); });
      for (int64_t at = 0; at < value.size; at++) {
        made[at] = static_cast<Number>(items[at]);
        if (static_cast<int64_t>(made[at]) != static_cast<int64_t>(items[at])) refuse();
      }
      return {made, value.size, value.width};
    }
  }

  const Value* values_;
  int64_t left_;
  bool fits_ = true;
  std::vector<std::unique_ptr<void, void (*)(void*)>> made_;
};

template <>
inline int64_t Reader::take<int64_t>() {
  return next(kWhole).bits;
}
template <>
inline bool Reader::take<bool>() {
  return next(kWhole).bits != 0;
}
template <>
inline double Reader::take<double>() {
  const Value value = next(kFloat);
  double number = 0;
  memcpy(&number, &value.bits, sizeof number);
  return number;
}

template <typename Item>
Items<Item> Items<Item>::from(Reader& reader) {
  const Value value = reader.next(type_of<std::remove_const_t<Item>>());
  if (!std::is_const_v<Item> && !reader.may_write()) reader.refuse();
  return {reinterpret_cast<Item*>(value.bits), value.size, value.width};
}
template <>
inline Ints Ints::from(Reader& reader) {
  return reader.converted<int64_t>();
}
template <>
inline Ids Ids::from(Reader& reader) {
  return reader.converted<int32_t>();
}

inline Value given(int64_t number) { return {number, 0, 0, kWhole}; }
template <typename Item>
Value given(Array<Item>& array) {
  const auto size = static_cast<int64_t>(array.size());
  return {reinterpret_cast<int64_t>(array.release()), size, 1, type_of<Item>()};
}
template <typename... Results>
int64_t give(std::tuple<Results...>& results, Value* into) {
  std::apply([&](auto&... each) { ((*into++ = given(each)), ...); }, results);
  return sizeof...(Results);
}
template <typename Result>
int64_t give(Result& result, Value* into) {
  *into = given(result);
  return 1;
}

constexpr int64_t kMisfit = -1, kNoMemory = -2;

// Calls the function; returns how many results it left, whose arrays the caller frees, or why it was not called.
template <typename Result, typename... Arguments>
int64_t call(Result (*function)(Arguments...), const Value* values, int64_t count, Value* results) {
  try {
    Reader reader(values, count);
    // In braces, arguments are taken from left to right.
    std::tuple<Arguments...> arguments{reader.take<Arguments>()...};
    if (!reader.fits()) return kMisfit;
    if constexpr (std::is_void_v<Result>) {
      std::apply(function, arguments);
      return 0;
    } else {
      Result result = std::apply(function, arguments);
      return give(result, results);
    }
  } catch (...) {
    return kNoMemory;
  }
}

}  // namespace tracebraid

#define TRACEBRAID_LOOP(name)                                                       \
  extern "C" __attribute__((visibility("default"))) int64_t tracebraid_loop_##name( \
      const tracebraid::Value* values, int64_t count, tracebraid::Value* results) { \
    return tracebraid::call(name, values, count, results);                          \
  }
