#include "nodes.h"

#include <unordered_map>
#include <utility>

#include "format.h"
#include "recorded_values.h"

namespace tracebraid {
namespace {

constexpr uint8_t kUserScope = static_cast<uint8_t>(at::RecordScope::USER_SCOPE);

class Nodes {
 public:
  Nodes(Recorder& recorder, const TakeNode& take) : recorder_(recorder), take_(take) {}

  Written read() {
    for (const auto& log : recorder_.threads()) {
      if (log->root != 0) root(log->root, "[pytorch|profiler|execution_trace|thread]", log->tid);
    }
    recorder_.store().read([this](const Chunk& chunk) { read(chunk); });
    for (auto& [rf_id, entered] : entered_) {
      written_.open++;
      node(entered, nullptr);
    }
    root(kProcessNode, "[pytorch|profiler|execution_trace|process]", 0);
    return written_;
  }

 private:
  struct Kept {
    uint64_t thread;
    std::string record;
  };

  static Reader reader_of(const Kept& kept) {
    return Reader(reinterpret_cast<const uint8_t*>(kept.record.data()), kept.record.size());
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
    Node node;
    Reader reader = reader_of(kept);
    read_start(node, reader);
    node.tid = recorder_.threads()[kept.thread]->tid;
    uint8_t exit_flags = exit == nullptr ? 0 : read_end(node, reader_of(*exit));
    if (exit == nullptr) node.more.push_back({"tracebraid_end", false, true, "open"});
    if (exit_flags & kRaised) node.more.push_back({"tracebraid_end", false, true, "raised"});
    take_(node);
    written_.nodes++;
    written_.raised += (exit_flags & kRaised) != 0;
  }

  void read_start(Node& node, Reader& reader) {
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
    node.inputs = take_values(reader);
    if (flags & kRanges) node.tensor_range = reader.text();
    if (flags & kKernel) {
      node.kernel_backend = reader.text();
      node.kernel_file = reader.text();
      if (reader.byte()) node.stream = reader.signed_number();
    }
  }

  static uint8_t read_end(Node& node, Reader reader) {
    reader.byte();
    uint8_t flags = reader.byte();
    reader.number();
    node.outputs = take_values(reader);
    uint64_t count = flags & kComms ? reader.number() : 0;
    for (uint64_t i = 0; i < count; i++) {
      Attribute one;
      one.name = reader.text();
      one.is_number = reader.byte();
      one.is_text = reader.byte();
      one.value = reader.text();
      node.more.push_back(one);
    }
    return flags;
  }

  void root(uint64_t id, const char* name, uint64_t tid) {
    Node node;
    node.id = id;
    node.parent = kProcessNode;
    node.name = name;
    node.scope = kUserScope;
    node.tid = tid;
    take_(node);
  }

  Recorder& recorder_;
  const TakeNode& take_;
  std::unordered_map<uint64_t, Kept> entered_, exited_;
  Written written_;
};

}  // namespace

Written read_nodes(Recorder& recorder, const TakeNode& take) { return Nodes(recorder, take).read(); }

}  // namespace tracebraid
