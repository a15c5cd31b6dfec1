#include "nodes.h"

#include <unordered_map>
#include <utility>

#include "record_format.h"
#include "recorder.h"
#include "value_decoder.h"

namespace tracebraid {
namespace {

constexpr uint8_t kUserScope = static_cast<uint8_t>(at::RecordScope::USER_SCOPE);

class NodeReader {
 public:
  NodeReader(Recorder& recorder, const ConsumeNode& consume) : recorder_(recorder), consume_(consume) {}

  Written read() {
    for (const auto& log : recorder_.threads()) {
      if (log->root != 0) add_root(log->root, "[pytorch|profiler|execution_trace|thread]", log->tid);
    }
    recorder_.chunks().flush([this](const Chunk& chunk) { read(chunk); });
    for (auto& [rf_id, entered] : entered_) {
      written_.open++;
      add_node(entered, nullptr);
    }
    add_root(kProcessNode, "[pytorch|profiler|execution_trace|process]", 0);
    return written_;
  }

 private:
  // Half of a node, while its other half has not been read.
  struct HalfNode {
    uint64_t thread;
    std::string record;
  };

  static ByteReader reader_of(const HalfNode& half) {
    return ByteReader(reinterpret_cast<const uint8_t*>(half.record.data()), half.record.size());
  }

  void read(const Chunk& chunk) {
    ByteReader reader(chunk.data.get(), chunk.used);
    while (!reader.done()) {
      uint32_t size = 0;
      ByteReader length = reader.sub_reader(sizeof size);
      std::memcpy(&size, length.next(), sizeof size);
      ByteReader record = reader.sub_reader(size);
      HalfNode half{chunk.thread, std::string(reinterpret_cast<const char*>(record.next()), size)};
      bool is_enter = record.byte() == kEnter;
      record.byte();
      if (is_enter) record.byte();
      match(is_enter, record.number(), std::move(half));
    }
  }

  // If one thread enters a function and another ends it, the halves may be read in either order.
  void match(bool is_enter, uint64_t rf_id, HalfNode half) {
    auto& others = is_enter ? exited_ : entered_;
    auto other = others.find(rf_id);
    if (other == others.end()) {
      (is_enter ? entered_ : exited_).emplace(rf_id, std::move(half));
      return;
    }
    is_enter ? add_node(half, &other->second) : add_node(other->second, &half);
    others.erase(other);
  }

  void add_node(const HalfNode& enter, const HalfNode* exit) {
    Node node;
    ByteReader reader = reader_of(enter);
    decode_enter(node, reader);
    node.tid = recorder_.threads()[enter.thread]->tid;
    uint8_t exit_flags = exit == nullptr ? 0 : decode_exit(node, reader_of(*exit));
    if (exit == nullptr) node.more.push_back({"tracebraid_end", false, true, "open"});
    if (exit_flags & kRaised) node.more.push_back({"tracebraid_end", false, true, "raised"});
    std::string cut = std::to_string(node.cut);
    if (node.cut != 0) node.more.push_back({"tracebraid_cut", true, false, cut});
    consume_(node);
    written_.nodes++;
    written_.raised += (exit_flags & kRaised) != 0;
  }

  void decode_enter(Node& node, ByteReader& reader) {
    reader.byte();
    uint8_t flags = reader.byte();
    node.scope = reader.byte();
    node.rf_id = reader.number();
    node.id = function_node(node.rf_id);
    node.parent = reader.number();
    node.fw_parent = reader.number();
    uint64_t number = reader.number();
    if (flags & kNameInline) {
      node.name = reader.text();
    } else {
      const Name& name = recorder_.names().at(static_cast<uint32_t>(number));
      node.name = name.text;
      node.op_schema = name.schema;
    }
    node.seq_id = reader.signed_number();
    node.fw_tid = reader.number();
    node.inputs = take_values(reader, node.cut);
    if (flags & kRanges) node.tensor_range = reader.text();
    if (flags & kKernel) {
      node.kernel_backend = reader.text();
      node.kernel_file = reader.text();
      if (reader.byte()) node.stream = reader.signed_number();
    }
    if (flags & kProcessGroup) add_attributes(node, reader);
  }

  static uint8_t decode_exit(Node& node, ByteReader reader) {
    reader.byte();
    uint8_t flags = reader.byte();
    reader.number();
    node.outputs = take_values(reader, node.cut);
    if (flags & kComms) add_attributes(node, reader);
    return flags;
  }

  static void add_attributes(Node& node, ByteReader& reader) {
    for (uint64_t count = reader.number(); count > 0; count--) {
      Attribute attribute;
      attribute.name = reader.text();
      attribute.is_number = reader.byte() != 0;
      attribute.is_text = reader.byte() != 0;
      attribute.value = reader.text();
      node.more.push_back(attribute);
    }
  }

  void add_root(uint64_t id, const char* name, uint64_t tid) {
    Node node;
    node.id = id;
    node.parent = kProcessNode;
    node.name = name;
    node.scope = kUserScope;
    node.tid = tid;
    consume_(node);
  }

  Recorder& recorder_;
  const ConsumeNode& consume_;
  std::unordered_map<uint64_t, HalfNode> entered_, exited_;
  Written written_;
};

}  // namespace

Written read_nodes(Recorder& recorder, const ConsumeNode& consume) { return NodeReader(recorder, consume).read(); }

}  // namespace tracebraid
