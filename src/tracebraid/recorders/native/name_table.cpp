#include "name_table.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace tracebraid {

namespace {

constexpr std::string_view kSchema = "\nschema: ";

// The text of an operator's schema, or its name where it has none; written within torch. It gets no stream of this
// library: where the compiler links libstdc++ statically each has one of its own, and torch would crash on the other.
std::string schema_text(const at::RecordFunction& function) {
  auto found = c10::Dispatcher::singleton().findSchema(*function.operator_name());
  std::string state = found ? found->dumpState() : "";
  size_t start = state.find(kSchema);
  if (start == std::string::npos) return c10::toString(*function.operator_name());
  start += kSchema.size();
  return state.substr(start, state.find('\n', start) - start);
}

}  // namespace

NumberedName NameTable::intern(std::string_view text, std::string_view schema, bool is_operator) {
  std::string key(is_operator ? "o" : "t");
  key.append(is_operator ? schema : text);
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = numbers_.find(key);
  if (found != numbers_.end()) return {found->second, names_[found->second - 1].get()};
  if (names_.size() >= kMaxNames) return {};
  names_.push_back(std::make_unique<Name>(Name{std::string(text), std::string(schema), is_operator}));
  auto number = static_cast<uint32_t>(names_.size());
  numbers_.emplace(std::move(key), number);
  return {number, names_.back().get()};
}

NumberedName NameCache::look_up(const at::RecordFunction& function, const char* text) {
  bool is_operator = function.operator_name().has_value();
  if (!is_operator) {
    auto found = others_.find(text);
    if (found != others_.end()) return found->second;
    NumberedName interned = table_.intern(text, "", false);
    if (interned.number != 0) others_[interned.name->text] = interned;
    return interned;
  }
  auto found = operators_.find(text);
  if (found != operators_.end() && found->second.name->text == text) return found->second;
  NumberedName interned = table_.intern(text, schema_text(function), true);
  if (interned.number != 0) operators_[text] = interned;
  return interned;
}

}  // namespace tracebraid
