// Names and schemas of operators, each stored once; records hold their numbers.
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
  std::string schema;  // empty where the name is not an operator's
  bool is_operator;
};

// The number is 0 and the name null where the table is full.
struct NumberedName {
  uint32_t number = 0;
  const Name* name = nullptr;
};

// All names of a recording, numbered from 1. Shared by all threads that record; mutex_ is a leaf of the lock order
// (recorder.h). A Name never moves or changes, so a pointer to one stays valid without the mutex.
class NameTable {
 public:
  NumberedName intern(std::string_view text, std::string_view schema, bool is_operator);
  // Called when no thread records any more.
  const Name& at(uint32_t number) const { return *names_.at(number - 1); }

 private:
  static constexpr size_t kMaxNames = 200000;  // some 20 MB; annotations may have a name per step

  std::mutex mutex_;
  // Guarded by mutex_:
  std::vector<std::unique_ptr<Name>> names_;
  std::unordered_map<std::string, uint32_t> numbers_;
};

// One thread's cache in front of NameTable: an operator's name by the address of its text, another by the text.
class NameCache {
 public:
  struct Found {
    uint32_t number;  // 0: the table is full
    bool is_operator;
  };

  explicit NameCache(NameTable& table) : table_(table) {}

  Found find(const at::RecordFunction& function) {
    const char* text = function.name();
    auto& entry = recent_[(reinterpret_cast<uintptr_t>(text) * 0x9E3779B97F4A7C15ULL) >> (64 - kBits)];
    if (!entry.matches(text)) {
      NumberedName found = look_up(function, text);
      if (found.number == 0) return {0, false};
      entry.set(text, found);
    }
    return {entry.number, entry.is_operator};
  }

 private:
  static constexpr int kBits = 8;

  // One cache line, but for a long text.
  struct alignas(64) Entry {
    const char* address = nullptr;
    const char* long_text = nullptr;
    uint32_t number = 0;
    bool is_operator = false;
    char short_text[43] = {};  // empty where the text is longer

    // The texts are compared too: the address may have been freed and used for another text.
    bool matches(const char* text) const {
      return address == text && std::strcmp(short_text[0] ? short_text : long_text, text) == 0;
    }
    void set(const char* text, NumberedName found) {
      const std::string& own = found.name->text;
      address = text;
      long_text = own.c_str();
      number = found.number;
      is_operator = found.name->is_operator;
      short_text[0] = 0;
      if (own.size() < sizeof short_text) std::memcpy(short_text, own.c_str(), own.size() + 1);
    }
  };
  static_assert(sizeof(Entry) == 64);

  NumberedName look_up(const at::RecordFunction& function, const char* text);

  NameTable& table_;
  std::array<Entry, size_t{1} << kBits> recent_{};
  std::unordered_map<const char*, NumberedName> operators_;
  std::unordered_map<std::string_view, NumberedName> others_;
};

}  // namespace tracebraid
