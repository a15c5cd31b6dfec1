#include "json.h"

#include <string_view>

#include "json_text.h"
#include "output_file.h"
#include "value_decoder.h"

namespace tracebraid {
namespace {

constexpr size_t kFlushBytes = 1 << 20;  // each write() gets about 1 MiB

struct Attrs {
  std::string& out;
  void add(std::string_view name, const char* type) {
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

class JsonWriter {
 public:
  explicit JsonWriter(const std::string& path) : file_(path) {}

  void open(const Header& header) {
    out_ += "{\n  \"schema\": \"1.1.1-chakra.0.0.4\", \"pid\": ";
    add_integer(out_, header.pid);
    out_ += ", \"time\": \"" + header.time + "\", \"start_ts\": ";
    add_integer(out_, header.start_ts);
    out_ += ",\n  \"nodes\": [";
  }

  void add(const Node& node) {
    out_ += has_nodes_ ? ",\n      {\n        \"id\": " : "\n      {\n        \"id\": ";
    has_nodes_ = true;
    add_unsigned(out_, node.id);
    out_ += ", \"name\": ";
    add_quoted(out_, node.name);
    out_ += ", \"ctrl_deps\": ";
    add_unsigned(out_, node.parent);
    lists_.clear();
    add_values(lists_, node.inputs);
    if (node.stream) add_stream(*node.stream);
    add_lists("inputs");
    lists_.clear();
    add_values(lists_, node.outputs);
    add_lists("outputs");
    add_attributes(node);
    if (out_.size() >= kFlushBytes) file_.write(out_);
  }

  void close(const Header& header) {
    out_ += "\n  ],\n  \"finish_ts\": ";
    add_integer(out_, header.finish_ts);
    out_ += "\n}\n";
    file_.write(out_);
    file_.close();
  }

 private:
  void add_stream(int64_t stream) {
    if (!lists_.values.empty()) lists_.comma();
    add_integer(lists_.values, stream);
    lists_.add_scalar("\"Int\"");
  }

  void add_lists(const char* name) {
    out_ += ",\n        \"";
    out_ += name;
    out_ += "\": {\"values\": [" + lists_.values + "], \"shapes\": [" + lists_.shapes + "], \"types\": [" +
            lists_.types + "], \"strides\": [" + lists_.strides + "]}";
  }

  void add_attributes(const Node& node) {
    out_ += ",\n        \"attrs\": [";
    Attrs attrs{out_};
    attrs.number("rf_id", node.rf_id);
    attrs.number("fw_parent", node.fw_parent);
    attrs.signed_number("seq_id", node.seq_id);
    attrs.number("scope", node.scope);
    attrs.number("tid", node.tid);
    attrs.number("fw_tid", node.fw_tid);
    attrs.text("op_schema", node.op_schema);
    attrs.text("kernel_backend", node.kernel_backend);
    attrs.text("kernel_file", node.kernel_file);
    attrs.text("tensor_range", node.tensor_range);
    for (const Attribute& attribute : node.more) {
      attrs.add(attribute.name, attribute.is_number ? "uint64" : "string");
      if (attribute.is_text) {
        add_quoted(out_, attribute.value);
      } else {
        out_ += attribute.value;
      }
      out_ += '}';
    }
    out_ += "]\n      }";
  }

  OutputFile file_;
  std::string out_;
  bool has_nodes_ = false;
  Lists lists_;
};

}  // namespace

Written write_json(Recorder& recorder, const Header& header, const std::string& path) {
  JsonWriter writer(path);
  writer.open(header);
  Written written = read_nodes(recorder, [&](const Node& node) { writer.add(node); });
  writer.close(header);
  return written;
}

}  // namespace tracebraid
