#include "json.h"

#include <cerrno>
#include <cstdio>
#include <string_view>
#include <system_error>
#include <unordered_map>

#include "format.h"
#include "json_text.h"
#include "json_values.h"

namespace tracebraid {
namespace {

constexpr size_t kFlushBytes = 1 << 20;
constexpr uint8_t kUserScope = static_cast<uint8_t>(at::RecordScope::USER_SCOPE);

class File {
 public:
  explicit File(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "wb")) {
    if (file_ == nullptr) fail();
    std::setvbuf(file_, nullptr, _IONBF, 0);
  }
  ~File() {
    if (file_ != nullptr) std::fclose(file_);
  }
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
  [[noreturn]] void fail() { throw std::system_error(errno, std::generic_category(), "cannot write " + path_); }

  std::string path_;
  FILE* file_;
};

struct Attrs {
  std::string& out;
  void add(const char* name, const char* type) {
    out += out.back() == '[' ? "{\"name\": \"" : ",{\"name\": \"";
    out += name;
    out += "\", \"type\": \"";
    out += type;
    out += "\", \"value\": ";
  }
  void number(const char* name, uint64_t value) {
    add(name, "uint64");
    add_unsigned(out, value);
    out += '}';
  }
  void signed_number(const char* name, int64_t value) {
    add(name, "int64");
    add_integer(out, value);
    out += '}';
  }
  void text(const char* name, std::string_view value) {
    add(name, "string");
    add_quoted(out, value);
    out += '}';
  }
};

// A function was entered: what the record of it says, read as far as the values.
struct Entered {
  Entered(Reader& reader, const Names& names) {
    flags = reader.byte();
    scope = reader.byte();
    rf_id = reader.number();
    parent = reader.number();
    fw_parent = reader.number();
    uint64_t number = reader.number();
    name = flags & kNameInline ? nullptr : &names.at(static_cast<uint32_t>(number));
    text = flags & kNameInline ? reader.text() : std::string_view(name->text);
    seq = reader.signed_number();
    fw_tid = reader.number();
  }

  uint8_t flags, scope;
  uint64_t rf_id, parent, fw_parent, fw_tid;
  int64_t seq;
  const Name* name;
  std::string_view text;
};

class Writer {
 public:
  Writer(Recorder& recorder, const std::string& path) : recorder_(recorder), file_(path) {}

  Written write(const Header& header) {
    open(header);
    for (const auto& log : recorder_.threads()) {
      if (log->root != 0) root(log->root, "[pytorch|profiler|execution_trace|thread]", log->tid);
    }
    recorder_.store().read([this](const Chunk& chunk) { read(chunk); });
    for (auto& [rf_id, entered] : entered_) {
      written_.open++;
      node(entered, nullptr);
    }
    root(kProcessNode, "[pytorch|profiler|execution_trace|process]", 0);
    out_ += "\n  ],\n  \"finish_ts\": ";
    add_integer(out_, header.finish_ts);
    out_ += "\n}\n";
    file_.write(out_);
    file_.close();
    return written_;
  }

 private:
  struct Kept {
    uint64_t thread;
    std::string record;
  };

  void open(const Header& header) {
    out_ += "{\n  \"schema\": \"1.1.1-chakra.0.0.4\", \"pid\": ";
    add_integer(out_, header.pid);
    out_ += ", \"time\": \"" + header.time + "\", \"start_ts\": ";
    add_integer(out_, header.start_ts);
    out_ += ",\n  \"nodes\": [";
  }

  void read(const Chunk& chunk) {
    Reader reader(chunk.data.get(), chunk.used);
    while (!reader.done()) {
      uint32_t size;
      Reader head = reader.part(sizeof size);
      std::memcpy(&size, head.at(), sizeof size);
      Reader record = reader.part(size);
      Kept kept{chunk.thread, std::string(reinterpret_cast<const char*>(record.at()), size)};
      bool is_enter = record.byte() == kEnter;
      record.byte();
      if (is_enter) record.byte();
      match(is_enter, record.number(), std::move(kept));
    }
  }

  // A function that one thread enters and another one ends may be read in either order.
  void match(bool is_enter, uint64_t rf_id, Kept kept) {
    auto& others = is_enter ? exited_ : entered_;
    auto other = others.find(rf_id);
    if (other == others.end()) {
      (is_enter ? entered_ : exited_).emplace(rf_id, std::move(kept));
      return;
    }
    is_enter ? node(kept, &other->second) : node(other->second, &kept);
    others.erase(other);
  }

  void node(const Kept& kept, const Kept* exit) {
    Reader reader(reinterpret_cast<const uint8_t*>(kept.record.data()), kept.record.size());
    reader.byte();
    Entered entered(reader, recorder_.names());
    inputs_.clear();
    outputs_.clear();
    add_values(inputs_, reader);
    std::string_view ranges = entered.flags & kRanges ? reader.text() : std::string_view();
    std::string_view backend, file;
    if (entered.flags & kKernel) {
      backend = reader.text();
      file = reader.text();
      if (reader.byte()) add_stream(reader.signed_number());
    }
    Reader rest(nullptr, 0);
    uint8_t exit_flags = 0;
    if (exit != nullptr) {
      rest = Reader(reinterpret_cast<const uint8_t*>(exit->record.data()), exit->record.size());
      rest.byte();
      exit_flags = rest.byte();
      rest.number();
      add_values(outputs_, rest);
    }

    begin(function_node(entered.rf_id), entered.text, entered.parent);
    Attrs attrs{out_};
    attrs.number("rf_id", entered.rf_id);
    attrs.number("fw_parent", entered.fw_parent);
    attrs.signed_number("seq_id", entered.seq);
    attrs.number("scope", entered.scope);
    attrs.number("tid", recorder_.threads()[kept.thread]->tid);
    attrs.number("fw_tid", entered.fw_tid);
    attrs.text("op_schema", entered.name ? std::string_view(entered.name->schema) : std::string_view());
    attrs.text("kernel_backend", backend);
    attrs.text("kernel_file", file);
    attrs.text("tensor_range", ranges);
    if (exit_flags & kComms) add_comms(attrs, rest);
    if (exit == nullptr) attrs.text("tracebraid_end", "open");
    if (exit_flags & kRaised) attrs.text("tracebraid_end", "raised");
    end();
    written_.nodes++;
    written_.raised += (exit_flags & kRaised) != 0;
  }

  void add_stream(int64_t stream) {
    if (!inputs_.values.empty()) inputs_.comma();
    add_integer(inputs_.values, stream);
    inputs_.add_scalar("\"Int\"");
  }

  static void add_comms(Attrs& attrs, Reader& reader) {
    uint64_t count = reader.number();
    for (uint64_t i = 0; i < count; i++) {
      std::string name(reader.text());
      attrs.add(name.c_str(), reader.byte() ? "uint64" : "string");
      if (reader.byte()) {
        add_quoted(attrs.out, reader.text());
      } else {
        attrs.out += reader.text();
      }
      attrs.out += '}';
    }
  }

  void root(uint64_t id, const char* name, uint64_t tid) {
    inputs_.clear();
    outputs_.clear();
    begin(id, name, kProcessNode);
    Attrs attrs{out_};
    attrs.number("rf_id", 0);
    attrs.number("fw_parent", 0);
    attrs.signed_number("seq_id", -1);
    attrs.number("scope", kUserScope);
    attrs.number("tid", tid);
    attrs.number("fw_tid", 0);
    for (const char* empty : {"op_schema", "kernel_backend", "kernel_file", "tensor_range"}) attrs.text(empty, "");
    end();
  }

  void begin(uint64_t id, std::string_view name, uint64_t parent) {
    out_ += has_nodes_ ? ",\n      {\n        \"id\": " : "\n      {\n        \"id\": ";
    has_nodes_ = true;
    add_unsigned(out_, id);
    out_ += ", \"name\": ";
    add_quoted(out_, name);
    out_ += ", \"ctrl_deps\": ";
    add_unsigned(out_, parent);
    add_lists("inputs", inputs_);
    add_lists("outputs", outputs_);
    out_ += ",\n        \"attrs\": [";
  }

  void add_lists(const char* name, const Lists& lists) {
    out_ += ",\n        \"";
    out_ += name;
    out_ += "\": {\"values\": [" + lists.values + "], \"shapes\": [" + lists.shapes + "], \"types\": [" +
        lists.types + "], \"strides\": [" + lists.strides + "]}";
  }

  void end() {
    out_ += "]\n      }";
    if (out_.size() >= kFlushBytes) file_.write(out_);
  }

  Recorder& recorder_;
  File file_;
  std::string out_;
  bool has_nodes_ = false;
  Lists inputs_, outputs_;
  std::unordered_map<uint64_t, Kept> entered_, exited_;
  Written written_;
};

}  // namespace

Written write_json(Recorder& recorder, const Header& header, const std::string& path) {
  return Writer(recorder, path).write(header);
}

}  // namespace tracebraid
