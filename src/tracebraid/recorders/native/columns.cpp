#include "columns.h"

#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "json_text.h"
#include "output_file.h"
#include "value_decoder.h"

namespace tracebraid {
namespace {

constexpr size_t kNodesPerBatch = 1 << 16;  // some 20 MB of columns
constexpr int64_t kMissing = std::numeric_limits<int64_t>::min();

void add_bytes(std::string& out, const void* data, size_t size) { out.append(static_cast<const char*>(data), size); }
void add_length(std::string& out, uint64_t length) { add_bytes(out, &length, sizeof length); }
void add_sized(std::string& out, std::string_view text) {
  add_length(out, text.size());
  out += text;
}

class IntColumn {
 public:
  explicit IntColumn(const char* name) : name_(name) {}
  void add(int64_t value) { rows_.push_back(value); }
  void add(uint64_t value) { rows_.push_back(static_cast<int64_t>(value)); }

  void flush_to(std::string& out) {
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

// TextColumn as JSON, each stored once a batch.
class TextColumn {
 public:
  explicit TextColumn(const char* name) : name_(name) {}

  void add(const std::string& json) {
    auto [found, is_new] = codes_.try_emplace(json, static_cast<int32_t>(codes_.size()));
    if (is_new) texts_.push_back(&found->first);
    rows_.push_back(found->second);
  }
  void add_plain(std::string_view text) {
    quoted_.clear();
    add_quoted(quoted_, text);
    add(quoted_);
  }

  void flush_to(std::string& out) {
    add_sized(out, name_);
    add_length(out, rows_.size());
    out += '\1';
    add_bytes(out, rows_.data(), rows_.size() * sizeof(int32_t));
    add_length(out, texts_.size());
    for (const std::string* text : texts_) add_length(out, text->size());
    for (const std::string* text : texts_) out += *text;
    rows_.clear();
    texts_.clear();
    codes_.clear();
  }

 private:
  const char* name_;
  std::string quoted_;
  std::vector<int32_t> rows_;
  std::vector<const std::string*> texts_;
  std::unordered_map<std::string, int32_t> codes_;
};

struct NodeRows {
  IntColumn node{"nodes.node_id"}, parent{"nodes.parent_id"}, rf_id{"nodes.rf_id"}, fw_parent{"nodes.fw_parent"},
      seq_id{"nodes.seq_id"}, scope{"nodes.scope"}, tid{"nodes.tid"}, fw_tid{"nodes.fw_tid"};
  TextColumn name{"nodes.name"}, op_schema{"nodes.op_schema"}, backend{"nodes.kernel_backend"},
      file{"nodes.kernel_file"};

  void add(const Node& row) {
    node.add(row.id);
    parent.add(row.parent);
    rf_id.add(row.rf_id);
    fw_parent.add(row.fw_parent);
    seq_id.add(row.seq_id);
    scope.add(row.scope);
    tid.add(row.tid);
    fw_tid.add(row.fw_tid);
    name.add_plain(row.name);
    op_schema.add_plain(row.op_schema);
    backend.add_plain(row.kernel_backend);
    file.add_plain(row.kernel_file);
  }
  void flush_to(std::string& out) {
    for (auto* column : {&node, &parent, &rf_id, &fw_parent, &seq_id, &scope, &tid, &fw_tid}) column->flush_to(out);
    for (auto* column : {&name, &op_schema, &backend, &file}) column->flush_to(out);
  }
};

// The columns that `values` and `tensor_uses` both begin with: which value of which node it is.
struct ValuePosition {
  IntColumn node, is_output, position;
  void add(uint64_t node_id, bool output, uint64_t index) {
    node.add(node_id);
    is_output.add(uint64_t{output});
    position.add(index);
  }
  void flush_to(std::string& out) {
    for (auto* column : {&node, &is_output, &position}) column->flush_to(out);
  }
};

struct ValueRows {
  ValuePosition value_position{IntColumn("values.node_id"), IntColumn("values.is_output"),
                               IntColumn("values.position")};
  TextColumn type{"values.type"}, value{"values.value"}, shape{"values.shape"}, strides{"values.strides"};

  void add(const Lists& row) {
    type.add('"' + row.types + '"');
    value.add(row.values);
    shape.add(row.shapes);
    strides.add(row.strides);
  }
  void flush_to(std::string& out) {
    value_position.flush_to(out);
    for (auto* column : {&type, &value, &shape, &strides}) column->flush_to(out);
  }
};

struct TensorRows {
  ValuePosition value_position{IntColumn("tensor_uses.node_id"), IntColumn("tensor_uses.is_output"),
                               IntColumn("tensor_uses.position")};
  IntColumn item{"tensor_uses.item"}, id{"tensor_uses.tensor_id"}, storage{"tensor_uses.storage_id"},
      offset{"tensor_uses.storage_offset"}, numel{"tensor_uses.numel"}, itemsize{"tensor_uses.itemsize_bytes"};
  TextColumn device{"tensor_uses.device"}, dtype{"tensor_uses.dtype"}, shape{"tensor_uses.shape"};

  void add(const RecordedTensor& row) {
    id.add(row.id);
    storage.add(row.storage);
    offset.add(row.storage_offset);
    numel.add(row.numel);
    itemsize.add(row.itemsize);
    device.add_plain(row.device);
    dtype.add_plain(row.dtype);
    shape.add(row.shape);
  }
  void flush_to(std::string& out) {
    value_position.flush_to(out);
    for (auto* column : {&item, &id, &storage, &offset, &numel, &itemsize}) column->flush_to(out);
    for (auto* column : {&device, &dtype, &shape}) column->flush_to(out);
  }
};

struct AttributeRows {
  IntColumn node{"attrs.node_id"};
  TextColumn key{"attrs.key"}, type{"attrs.type"}, value{"attrs.value"};

  void add(uint64_t node_id, const Attribute& row) {
    node.add(node_id);
    key.add_plain(row.name);
    type.add_plain(row.is_number ? "uint64" : "string");
    row.is_text ? value.add_plain(row.value) : value.add(std::string(row.value));
  }
  void flush_to(std::string& out) {
    node.flush_to(out);
    for (auto* column : {&key, &type, &value}) column->flush_to(out);
  }
};

class ColumnWriter {
 public:
  explicit ColumnWriter(const std::string& path) : file_(path) { lists_.tensors = &tensors_found_; }

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
    add_values(node, false);
    add_values(node, true);
    attributes_.add(node.id, {"tensor_range", false, true, node.tensor_range});
    for (const Attribute& attribute : node.more) attributes_.add(node.id, attribute);
    if (++nodes_in_batch_ == kNodesPerBatch) flush();
  }

  void close() {
    flush();
    file_.close();
  }

 private:
  void add_values(const Node& node, bool is_output) {
    ByteReader values = is_output ? node.outputs : node.inputs;
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
    values_.value_position.add(node.id, is_output, position);
    values_.add(lists_);
    bool is_alone = lists_.types.rfind("Tensor(", 0) == 0;
    for (size_t item = 0; item < tensors_found_.size(); item++) {
      tensors_.value_position.add(node.id, is_output, position);
      tensors_.item.add(is_alone ? kMissing : static_cast<int64_t>(item));
      tensors_.add(tensors_found_[item]);
    }
    tensors_found_.clear();
  }

  void flush() {
    nodes_.flush_to(out_);
    values_.flush_to(out_);
    tensors_.flush_to(out_);
    attributes_.flush_to(out_);
    file_.write(out_);
    nodes_in_batch_ = 0;
  }

  OutputFile file_;
  std::string out_;
  size_t nodes_in_batch_ = 0;
  Lists lists_;
  std::vector<RecordedTensor> tensors_found_;
  NodeRows nodes_;
  ValueRows values_;
  TensorRows tensors_;
  AttributeRows attributes_;
};

}  // namespace

Written write_columns(Recorder& recorder, const Header& header, const std::string& path) {
  ColumnWriter writer(path);
  writer.open(header);
  Written written = read_nodes(recorder, [&](const Node& node) { writer.add(node); });
  writer.close();
  return written;
}

}  // namespace tracebraid
