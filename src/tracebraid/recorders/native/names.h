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

// A number of 0 and no name where there are too many to keep.
struct NumberedName {
  uint32_t number = 0;
  const Name* name = nullptr;
};

// All names of a recording. Number 0 is nobody's.
class Names {
 public:
  NumberedName intern(std::string_view text, std::string_view schema, bool is_operator);
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
  struct Known {
    uint32_t number;  // 0: there are too many to keep
    bool is_operator;
  };

  explicit KnownNames(Names& names) : names_(names) {}

  Known of(const at::RecordFunction& function) {
    const char* text = function.name();
    auto& entry = lately_[(reinterpret_cast<uintptr_t>(text) * 0x9E3779B97F4A7C15ull) >> 56];
    if (!entry.is_of(text)) {
      NumberedName found = look_up(function, text);
      if (found.number == 0) return {0, false};
      entry.set(text, found);
    }
    return {entry.number, entry.is_operator};
  }

 private:
  // All that is asked of it lies in one line of the cache, but for a long text.
  struct alignas(64) Entry {
    const char* address = nullptr;
    const char* whole = nullptr;
    uint32_t number = 0;
    bool is_operator = false;
    char short_text[43] = {};  // empty: the text is longer

    // An address that was one text's may be another's by now.
    bool is_of(const char* text) const {
      return address == text && std::strcmp(short_text[0] ? short_text : whole, text) == 0;
    }
    void set(const char* text, NumberedName found) {
      const std::string& own = found.name->text;
      address = text;
      whole = own.c_str();
      number = found.number;
      is_operator = found.name->is_operator;
      short_text[0] = 0;
      if (own.size() < sizeof short_text) std::memcpy(short_text, own.c_str(), own.size() + 1);
    }
  };
  static_assert(sizeof(Entry) == 64);

  NumberedName look_up(const at::RecordFunction& function, const char* text);

  Names& names_;
  std::array<Entry, 256> lately_{};
  std::unordered_map<const char*, NumberedName> operators_;
  std::unordered_map<std::string_view, NumberedName> others_;
};

}  // namespace tracebraid
