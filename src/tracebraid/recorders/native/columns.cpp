#include "columns.h"

#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "file.h"
#include "json_text.h"
#include "recorded_values.h"

namespace tracebraid {
namespace {

constexpr size_t kNodesInPiece = 1 << 16;
constexpr int64_t kMissing = std::numeric_limits<int64_t>::min();

void add_bytes(std::string& out, const void* data, size_t size) { out.append(static_cast<const char*>(data), size); }
void add_length(std::string& out, uint64_t length) { add_bytes(out, &length, sizeof length); }
void add_sized(std::string& out, std::string_view text) {
  add_length(out, text.size());
  out += text;
}

class Numbers {
 public:
  explicit Numbers(const char* name) : name_(name) {}
  void add(int64_t value) { rows_.push_back(value); }
  void add(uint64_t value) { rows_.push_back(static_cast<int64_t>(value)); }

  void move_to(std::string& out) {
    add_sized(out, name_);
    add_length(out, rows_.size());
    out += '\0';
    add_bytes(out, rows_.data(), rows_.size() * sizeof(int64_t));
    rows_.clear();
  }

 private:
  const char* name_;
  std::vector<int64_t> rows_;
};

// Text that repeats, as JSON.
class Texts {
 public:
  explicit Texts(const char* name) : name_(name) {}

  void add(const std::string& json) {
    auto [known, is_new] = numbers_.try_emplace(json, static_cast<int32_t>(numbers_.size()));
    if (is_new) texts_.push_back(&known->first);
    rows_.push_back(known->second);
  }
  void add_plain(std::string_view text) {
    quoted_.clear();
    add_quoted(quoted_, text);
    add(quoted_);
  }

  void move_to(std::string& out) {
    add_sized(out, name_);
    add_length(out, rows_.size());
    out += '\1';
    add_bytes(out, rows_.data(), rows_.size() * sizeof(int32_t));
    add_length(out, texts_.size());
    for (const std::string* text : texts_) add_length(out, text->size());
    for (const std::string* text : texts_) out += *text;
    rows_.clear();
    texts_.clear();
    numbers_.clear();
  }

 private:
  const char* name_;
  std::string quoted_;
  std::vector<int32_t> rows_;
  std::vector<const std::string*> texts_;
  std::unordered_map<std::string, int32_t> numbers_;
};

struct NodeRows {
  Numbers node{"nodes.node_id"}, parent{"nodes.parent_id"}, rf_id{"nodes.rf_id"}, fw_parent{"nodes.fw_parent"},
      seq_id{"nodes.seq_id"}, scope{"nodes.scope"}, tid{"nodes.tid"}, fw_tid{"nodes.fw_tid"};
  Texts name{"nodes.name"}, op_schema{"nodes.op_schema"}, backend{"nodes.kernel_backend"}, file{"nodes.kernel_file"};

  void add(const Node& one) {
    node.add(one.id);
    parent.add(one.parent);
    rf_id.add(one.rf_id);
    fw_parent.add(one.fw_parent);
    seq_id.add(one.seq_id);
    scope.add(one.scope);
    tid.add(one.tid);
    fw_tid.add(one.fw_tid);
    name.add_plain(one.name);
    op_schema.add_plain(one.op_schema);
    backend.add_plain(one.kernel_backend);
    file.add_plain(one.kernel_file);
  }
  void move_to(std::string& out) {
    for (auto* column : {&node, &parent, &rf_id, &fw_parent, &seq_id, &scope, &tid, &fw_tid}) column->move_to(out);
    for (auto* column : {&name, &op_schema, &backend, &file}) column->move_to(out);
  }
};

// Where a value is: the columns that `values` and `tensor_uses` both begin with.
struct Place {
  Numbers node, is_output, position;
  void add(uint64_t node_id, bool output, uint64_t at) {
    node.add(node_id);
    is_output.add(uint64_t{output});
    position.add(at);
  }
  void move_to(std::string& out) {
    for (auto* column : {&node, &is_output, &position}) column->move_to(out);
  }
};

struct ValueRows {
  Place place{Numbers("values.node_id"), Numbers("values.is_output"), Numbers("values.position")};
  Texts type{"values.type"}, value{"values.value"}, shape{"values.shape"}, strides{"values.strides"};

  void add(const Lists& one) {
    type.add('"' + one.types + '"');
    value.add(one.values);
    shape.add(one.shapes);
    strides.add(one.strides);
  }
  void move_to(std::string& out) {
    place.move_to(out);
    for (auto* column : {&type, &value, &shape, &strides}) column->move_to(out);
  }
};

struct TensorRows {
  Place place{Numbers("tensor_uses.node_id"), Numbers("tensor_uses.is_output"), Numbers("tensor_uses.position")};
  Numbers item{"tensor_uses.item"}, id{"tensor_uses.tensor_id"}, storage{"tensor_uses.storage_id"},
      offset{"tensor_uses.storage_offset"}, numel{"tensor_uses.numel"}, itemsize{"tensor_uses.itemsize_bytes"};
  Texts device{"tensor_uses.device"}, dtype{"tensor_uses.dtype"}, shape{"tensor_uses.shape"};

  void add(const RecordedTensor& one) {
    id.add(one.id);
    storage.add(one.storage);
    offset.add(one.storage_offset);
    numel.add(one.numel);
    itemsize.add(one.itemsize);
    device.add_plain(one.device);
    dtype.add_plain(one.dtype);
    shape.add(one.shape);
  }
  void move_to(std::string& out) {
    place.move_to(out);
    for (auto* column : {&item, &id, &storage, &offset, &numel, &itemsize}) column->move_to(out);
    for (auto* column : {&device, &dtype, &shape}) column->move_to(out);
  }
};

struct AttributeRows {
  Numbers node{"attrs.node_id"};
  Texts key{"attrs.key"}, type{"attrs.type"}, value{"attrs.value"};

  void add(uint64_t node_id, const Attribute& one) {
    node.add(node_id);
    key.add_plain(one.name);
    type.add_plain(one.is_number ? "uint64" : "string");
    one.is_text ? value.add_plain(one.value) : value.add(std::string(one.value));
  }
  void move_to(std::string& out) {
    node.move_to(out);
    for (auto* column : {&key, &type, &value}) column->move_to(out);
  }
};

class Writer {
 public:
  explicit Writer(const std::string& path) : file_(path) { lists_.tensors = &tensors_found_; }

  void open(const Header& header) {
    std::string members = "{\"schema\": \"1.1.1-chakra.0.0.4\", \"pid\": ";
    add_integer(members, header.pid);
    members += ", \"time\": \"" + header.time + "\", \"start_ts\": ";
    add_integer(members, header.start_ts);
    members += ", \"finish_ts\": ";
    add_integer(members, header.finish_ts);
    members += '}';
    add_sized(out_, members);
  }

  void add(const Node& node) {
    nodes_.add(node);
    add_side(node, false);
    add_side(node, true);
    attributes_.add(node.id, {"tensor_range", false, true, node.tensor_range});
    for (const Attribute& one : node.more) attributes_.add(node.id, one);
    if (++nodes_in_piece_ == kNodesInPiece) flush();
  }

  void close() {
    flush();
    file_.close();
  }

 private:
  void add_side(const Node& node, bool is_output) {
    Reader values = is_output ? node.outputs : node.inputs;
    uint64_t count = values.done() ? 0 : values.number();
    for (uint64_t position = 0; position < count; position++) {
      lists_.clear();
      add_value(lists_, values);
      add_row(node, is_output, position);
    }
    if (is_output || !node.stream) return;
    lists_.clear();
    add_integer(lists_.values, *node.stream);
    lists_.add_scalar("Int");
    add_row(node, false, count);
  }

  void add_row(const Node& node, bool is_output, uint64_t position) {
    values_.place.add(node.id, is_output, position);
    values_.add(lists_);
    bool is_alone = lists_.types.rfind("Tensor(", 0) == 0;
    for (size_t item = 0; item < tensors_found_.size(); item++) {
      tensors_.place.add(node.id, is_output, position);
      tensors_.item.add(is_alone ? kMissing : static_cast<int64_t>(item));
      tensors_.add(tensors_found_[item]);
    }
    tensors_found_.clear();
  }

  void flush() {
    nodes_.move_to(out_);
    values_.move_to(out_);
    tensors_.move_to(out_);
    attributes_.move_to(out_);
    file_.write(out_);
    nodes_in_piece_ = 0;
  }

  File file_;
  std::string out_;
  size_t nodes_in_piece_ = 0;
  Lists lists_;
  std::vector<RecordedTensor> tensors_found_;
  NodeRows nodes_;
  ValueRows values_;
  TensorRows tensors_;
  AttributeRows attributes_;
};

}  // namespace

Written write_columns(Recorder& recorder, const Header& header, const std::string& path) {
  Writer writer(path);
  writer.open(header);
  Written written = read_nodes(recorder, [&](const Node& node) { writer.add(node); });
  writer.close();
  return written;
}

}  // namespace tracebraid
