// The nodes of an Execution Trace, from JSON text to columns, in one pass. What it takes it takes as the Python reader
// does; a chunk with anything else, as another order of members, is given back whole.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "columns.h"
#include "json_text.h"
#include "scan.h"

namespace tracebraid {
namespace {

constexpr int64_t kMissing = INT64_MIN;
// The attributes that come first, of which nearly all nodes have other values.
constexpr std::array<std::string_view, 3> kFirst = {"\"rf_id\"", "\"fw_parent\"", "\"seq_id\""};

// The arrays of a scan, as `execution_trace/scan.py` names them.
enum What : uint8_t {
  kIds,
  kNames,
  kParents,
  kFirstValues,
  kAttributes,
  kCounts,
  kLayouts,
  kValues,
  kNameTexts,
  kAttributeTexts,
  kLayoutTexts,
  kValueTexts
};

class NodeScan : public Scan {
 public:
  int64_t take(int what, int /*of*/, void** items) override {
    switch (what) {
      case kIds: return given(id_, items);
      case kNames: return given(name_, items);
      case kParents: return given(parent_, items);
      case kFirstValues: return given(first_, items);
      case kAttributes: return given(attributes_, items);
      case kCounts: return given(count_, items);
      case kLayouts: return given(layout_, items);
      case kValues: return given(value_, items);
      case kNameTexts: return given(names_.bytes(), items);
      case kAttributeTexts: return given(attribute_texts_.bytes(), items);
      case kLayoutTexts: return given(layouts_.bytes(), items);
      case kValueTexts: return given(values_.bytes(), items);
      default: *items = nullptr; return 0;
    }
  }

 private:
  bool read(const Byte* begin, const Byte* end) override {
    Mark mark = marked();
    try {
      nodes(begin, end);
    } catch (...) {  // Unusual, or without memory.
      undo(mark);
      return false;
    }
    return true;
  }

  struct Mark {
    size_t nodes = 0, lists = 0, values = 0;
    int32_t names = 0, attributes = 0, layouts = 0, value_texts = 0;
  };

  Mark marked() const {
    return {name_.size(),    layout_.size(), value_.size(), names_.size(), attribute_texts_.size(),
            layouts_.size(), values_.size()};
  }

  void undo(const Mark& mark) {
    for (auto* numbers : {&id_, &parent_}) numbers->cut(mark.nodes);
    first_.cut(mark.nodes * kFirst.size());
    for (auto* codes : {&name_, &attributes_}) codes->cut(mark.nodes);
    for (auto* codes : {&count_, &layout_}) codes->cut(mark.lists);
    value_.cut(mark.values);
    names_.cut(mark.names);
    attribute_texts_.cut(mark.attributes);
    layouts_.cut(mark.layouts);
    values_.cut(mark.value_texts);
  }

  void nodes(const Byte* p, const Byte* end) {
    p = skip_space(p);
    if (p == end) return;
    for (;;) {
      p = skip_space(node(p));
      if (p == end) return;
      p = comma(p);
    }
  }

  // From a comma, before which may be space, to the next token.
  static const Byte* comma(const Byte* p) {
    p = skip_space(p);
    if (*p != ',') throw Unusual{};
    return skip_space(p + 1);
  }

  // Whether a text that is shorter than the padding stands here.
  static bool is(const Byte* p, std::string_view text) { return memcmp(p, text.data(), text.size()) == 0; }

  // From a key to its value.
  static const Byte* key(const Byte* p, std::string_view key) {
    if (!is(p, key)) throw Unusual{};
    p = skip_space(p + key.size());
    if (*p != ':') throw Unusual{};
    return skip_space(p + 1);
  }

  // From a key to its value: one of three keys, each of which an object has once.
  static const Byte* key_of(const std::array<std::string_view, 3>& keys, const Byte* p, size_t& found, unsigned& seen) {
    while (found < keys.size() && !is(p, keys[found])) found++;
    if (found == keys.size() || (seen & 1u << found) != 0) throw Unusual{};
    seen |= 1u << found;
    return key(p, keys[found]);
  }

  // From the opening brace of a node to behind its closing one.
  const Byte* node(const Byte* p) {
    if (*p != '{' || name_.size() >= INT32_MAX / 2) throw Unusual{};
    p = skip_space(p + 1);
    if (is(p, "\"name\"")) return flat_node(p);
    int64_t id = 0, parent = kMissing;
    p = integer(p, "\"id\"", id);
    int32_t name_code = 0;
    p = name(comma(p), name_code);
    p = key(comma(p), "\"ctrl_deps\"");
    if (load4(p) == word_of("null")) {
      p += 4;
    } else if (!read_integer(p, parent)) {
      throw Unusual{};
    }
    p = arguments(key(comma(p), "\"inputs\""));
    p = arguments(key(comma(p), "\"outputs\""));
    p = skip_space(attributes(key(comma(p), "\"attrs\"")));
    if (*p != '}') throw Unusual{};
    add_node(id, name_code, parent);
    return p + 1;
  }

  void add_node(int64_t id, int32_t name, int64_t parent) {
    id_.add(id);
    name_.add(name);
    parent_.add(parent);
  }

  // From a key to behind the integer that is its value.
  static const Byte* integer(const Byte* p, std::string_view name, int64_t& value) {
    p = key(p, name);
    if (!read_integer(p, value)) throw Unusual{};
    return p;
  }

  const Byte* name(const Byte* p, int32_t& code) {
    p = key(p, "\"name\"");
    if (*p != '"') throw Unusual{};
    const Byte* end = value_end(p);
    code = names_.number(p, end - p);
    return end;
  }

  // From the first key of a node of schema 1.0.1 to behind its closing brace. Its attributes are members of it.
  const Byte* flat_node(const Byte* p) {
    int32_t name_code = 0;
    int64_t id = 0, parent = 0, scope = 0, tid = 0, fw_tid = 0;
    std::array<int64_t, kFirst.size()> first{};
    p = name(p, name_code);
    p = integer(comma(p), "\"id\"", id);
    p = integer(comma(p), kFirst[0], first[0]);
    p = integer(comma(p), "\"parent\"", parent);
    p = integer(comma(p), kFirst[1], first[1]);
    p = integer(comma(p), kFirst[2], first[2]);
    p = integer(comma(p), "\"scope\"", scope);
    p = integer(comma(p), "\"tid\"", tid);
    p = integer(comma(p), "\"fw_tid\"", fw_tid);
    const Byte* schema = key(comma(p), "\"op_schema\"");
    if (*schema != '"') throw Unusual{};
    p = value_end(schema);
    text_ = "[";
    append_attribute("scope", std::to_string(scope));
    append_attribute("tid", std::to_string(tid));
    append_attribute("fw_tid", std::to_string(fw_tid));
    append_attribute("op_schema", {reinterpret_cast<const char*>(schema), static_cast<size_t>(p - schema)});
    text_.back() = ']';
    bool is_new = false;
    attributes_.add(numbered(attribute_texts_, is_new));
    if (is_new) check_text(schema, p);
    first_.add(first.data(), first.size());
    p = flat_arguments(comma(p), "\"inputs\"", "\"input_shapes\"", "\"input_types\"");
    p = flat_arguments(comma(p), "\"outputs\"", "\"output_shapes\"", "\"output_types\"");
    p = skip_space(p);
    if (*p != '}') throw Unusual{};
    add_node(id, name_code, parent);
    return p + 1;
  }

  void append_attribute(std::string_view name, std::string_view value) {
    text_.append("{\"name\":\"").append(name).append("\",\"value\":").append(value).append("},");
  }

  const Byte* flat_arguments(const Byte* p, std::string_view values_key, std::string_view shapes_key,
                             std::string_view types_key) {
    p = values(key(p, values_key));
    const Byte* shapes = key(comma(p), shapes_key);
    const Byte* shapes_end = value_end(shapes);
    const Byte* types = key(comma(shapes_end), types_key);
    const Byte* types_end = value_end(types);
    if (*shapes != '[' || *types != '[') throw Unusual{};
    text_.assign("{\"shapes\":").append(reinterpret_cast<const char*>(shapes), shapes_end - shapes);
    text_.append(",\"types\":").append(reinterpret_cast<const char*>(types), types_end - types).append("}");
    bool is_new = false;
    layout_.add(numbered(layouts_, is_new));
    if (is_new) {
      check_text(shapes, shapes_end);
      check_text(types, types_end);
      check_types(types);
    }
    return types_end;
  }

  // From the opening brace of a node's inputs or outputs to behind its closing one.
  const Byte* arguments(const Byte* p) {
    if (*p != '{') throw Unusual{};
    return layout(skip_space(values(key(skip_space(p + 1), "\"values\""))));
  }

  // From the opening bracket of values to behind the closing one.
  const Byte* values(const Byte* p) {
    if (*p != '[') throw Unusual{};
    size_t before = value_.size();
    p = skip_space(p + 1);
    while (*p != ']') {
      const Byte* value = p;
      p = value_end(p);
      value_.add(values_.number(value, p - value));
      p = skip_space(p);
      if (*p == ']') break;
      p = comma(p);
      if (*p == ']') throw Unusual{};
    }
    if (value_.size() >= INT32_MAX) throw Unusual{};
    count_.add(static_cast<int32_t>(value_.size() - before));
    return p + 1;
  }

  // The members behind the values, up to behind the closing brace.
  const Byte* layout(const Byte* p) {
    const Byte* begin = p;
    if (*p != '}') {
      begin = comma(p);
      if (*begin != '"') throw Unusual{};
    }
    const Byte* end = begin;
    bool escaped = false;
    while (*end != '}') {
      if (*end != '"') throw Unusual{};
      end = skip_space(string_end(end + 1, escaped) + 1);
      if (*end != ':') throw Unusual{};
      end = skip_space(value_end(skip_space(end + 1)));
      if (*end == '}') break;
      end = comma(end);
      if (*end == '}') throw Unusual{};
    }
    end++;
    text_.assign("{").append(reinterpret_cast<const char*>(begin), end - begin);
    bool is_new = false;
    layout_.add(numbered(layouts_, is_new));
    if (is_new) check_layout(begin);
    return end;
  }

  // Checks a layout whose extent is known: `shapes`, `types` and `strides`, each once and a list, of texts for types.
  static void check_layout(const Byte* p) {
    static constexpr std::array<std::string_view, 3> kKeys = {"\"shapes\"", "\"types\"", "\"strides\""};
    unsigned seen = 0;
    while (*p != '}') {
      size_t found = 0;
      p = key_of(kKeys, p, found, seen);
      if (*p != '[') throw Unusual{};
      const Byte* end = value_end(p);
      check_text(p, end);
      if (kKeys[found] == "\"types\"") check_types(p);
      p = skip_space(end);
      if (*p == ',') p = skip_space(p + 1);
    }
  }

  // Checks that a list holds texts only.
  static void check_types(const Byte* p) {
    p = skip_space(p + 1);
    while (*p != ']') {
      if (*p != '"') throw Unusual{};
      p = skip_space(value_end(p));
      if (*p == ',') p = skip_space(p + 1);
    }
  }

  // From the opening bracket of a node's attributes to behind its closing one.
  const Byte* attributes(const Byte* p) {
    if (*p != '[') throw Unusual{};
    const Byte* begin = p;
    std::array<int64_t, kFirst.size()> first{};
    first.fill(kMissing);
    const Byte* rest = first_attributes(skip_space(p + 1), first);
    if (rest == nullptr) {
      first.fill(kMissing);
      rest = begin + 1;
    }
    first_.add(first.data(), first.size());
    const Byte* end = brackets_end(begin);
    text_.assign("[").append(reinterpret_cast<const char*>(rest), end - rest);
    bool is_new = false;
    attributes_.add(numbered(attribute_texts_, is_new));
    if (is_new) check_attributes(begin);
    return end;
  }

  // Reads the attributes that come first; returns where the next one begins, or null where these are not there.
  static const Byte* first_attributes(const Byte* p, std::array<int64_t, kFirst.size()>& values) {
    auto moved = [&](std::string_view text) {
      if (!is(p, text)) return false;
      p = skip_space(p + text.size());
      return true;
    };
    for (size_t i = 0; i < kFirst.size(); i++) {
      if (!moved("{") || !moved("\"name\"") || !moved(":") || !moved(kFirst[i]) || !moved(",")) return nullptr;
      if (!moved("\"type\"") || !moved(":") || *p != '"') return nullptr;
      bool escaped = false;
      const Byte* type = p;
      p = string_end(p + 1, escaped) + 1;
      if (escaped) return nullptr;
      check_text(type, p);
      p = skip_space(p);
      if (!moved(",") || !moved("\"value\"") || !moved(":") || !read_integer(p, values[i])) return nullptr;
      p = skip_space(p);
      if (!moved("}") || !moved(",")) return nullptr;
    }
    return *p == '{' ? p : nullptr;
  }

  // Checks attributes whose extent is known: objects with `name`, and perhaps `type` and `value`, each once.
  static void check_attributes(const Byte* p) {
    static constexpr std::array<std::string_view, 3> kKeys = {"\"name\"", "\"type\"", "\"value\""};
    check_value(p);
    p = skip_space(p + 1);
    while (*p != ']') {
      if (*p != '{') throw Unusual{};
      unsigned seen = 0;
      p = skip_space(p + 1);
      while (*p != '}') {
        size_t found = 0;
        p = key_of(kKeys, p, found, seen);
        if (*p != '"' && found != 2) throw Unusual{};
        p = skip_space(value_end(p));
        if (*p == ',') p = skip_space(p + 1);
      }
      if ((seen & 1u) == 0) throw Unusual{};
      p = skip_space(p + 1);
      if (*p == ',') p = skip_space(p + 1);
    }
  }

  // The number among texts of the one that was put together; the caller checks a new one.
  int32_t numbered(Texts& texts, bool& is_new) {
    int32_t known = texts.size();
    int32_t code = texts.number(reinterpret_cast<const Byte*>(text_.data()), text_.size(), true);
    is_new = code == known;
    return code;
  }

  std::string text_;
  Texts names_, attribute_texts_, layouts_, values_;
  Array<int64_t> id_, parent_, first_;
  Array<int32_t> name_, attributes_, count_, layout_, value_;
};

}  // namespace

std::unique_ptr<Scan> node_scan() { return std::make_unique<NodeScan>(); }

}  // namespace tracebraid
