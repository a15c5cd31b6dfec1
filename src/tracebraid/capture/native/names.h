// Names and schemas of operators, each kept once; records hold their numbers.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <ATen/record_function.h>

namespace tracebraid {

struct Name {
  std::string text;
  std::string schema;  // empty for a name that is no operator's
  bool is_operator;
};

// All names of a recording. Number 0 is nobody's.
class Names {
 public:
  // What stands for a name; {0, nullptr} where there are too many to keep.
  std::pair<uint32_t, const Name*> intern(std::string_view text, std::string_view schema, bool is_operator);
  const Name& at(uint32_t number) const { return *names_.at(number - 1); }

 private:
  static constexpr size_t kMost = 200000;

  std::mutex mutex_;
  std::vector<std::unique_ptr<Name>> names_;
  std::unordered_map<std::string, uint32_t> numbers_;
};

// What a thread knows of the names: an operator's by the address of its text, another's by the text.
class KnownNames {
 public:
  explicit KnownNames(Names& names) : names_(names) {}

  std::pair<uint32_t, const Name*> of(const at::RecordFunction& function) {
    const char* text = function.name();
    auto& entry = lately_[(reinterpret_cast<uintptr_t>(text) * 0x9E3779B97F4A7C15ull) >> 56];
    // An address that was one text's may be another's by now.
    if (entry.address != text || std::strcmp(entry.name->text.c_str(), text) != 0) {
      auto found = look_up(function, text);
      if (found.first == 0) return found;
      entry = {text, found.second, found.first};
    }
    return {entry.number, entry.name};
  }

 private:
  struct Entry {
    const char* address = nullptr;
    const Name* name = nullptr;
    uint32_t number = 0;
  };

  std::pair<uint32_t, const Name*> look_up(const at::RecordFunction& function, const char* text);

  Names& names_;
  std::array<Entry, 256> lately_{};
  std::unordered_map<const char*, Entry> operators_;
  std::unordered_map<std::string_view, Entry> others_;
};

}  // namespace tracebraid
