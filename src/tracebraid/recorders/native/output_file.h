// A file that is written in order, from its beginning to its end.
#pragma once

#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>

namespace tracebraid {

// Throws std::system_error where it cannot be written.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path) : file_(std::fopen(path.c_str(), "wb")) {
    if (file_ == nullptr) fail();
    std::setvbuf(file_, nullptr, _IONBF, 0);
  }
  ~OutputFile() {
    if (file_ != nullptr) std::fclose(file_);
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Writes the text and clears it.
  void write(std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) fail();
    text.clear();
  }
  void close() {
    FILE* file = file_;
    file_ = nullptr;
    if (std::fclose(file) != 0) fail();
  }

 private:
  [[noreturn]] void fail() { throw std::system_error(errno, std::generic_category(), "it cannot be written"); }

  FILE* file_;
};

}  // namespace tracebraid
