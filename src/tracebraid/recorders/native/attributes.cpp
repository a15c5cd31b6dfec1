#include "attributes.h"

#include <array>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>

#include <torch/csrc/profiler/util.h>

namespace tracebraid {
namespace {

using Inputs = std::unordered_map<std::string, c10::IValue>;

std::string text_of(const Inputs& inputs, const char* key) {
  auto found = inputs.find(key);
  return found != inputs.end() && found->second.isString() ? found->second.toStringRef() : "";
}

// The name in a Kineto trace, the name in an Execution Trace, and whether it is a number there.
struct CommsAttribute {
  const char* kineto_name;
  const char* et_name;
  bool is_number;
};

constexpr std::array<CommsAttribute, 12> kAttributes{{
    {"Collective name", "collective_name", false},
    {"dtype", "dtype", false},
    {"In msg nelems", "in_msg_nelems", true},
    {"Out msg nelems", "out_msg_nelems", true},
    {"In split size", "in_split_size", false},
    {"Out split size", "out_split_size", false},
    {"Global rank start", "global_rank_start", true},
    {"Global rank stride", "global_rank_stride", true},
    {"Process Group Name", "pg_name", false},
    {"Process Group Description", "pg_desc", false},
    {"Group size", "pg_size", true},
    {"Is asynchronized op", "is_asynchronized_op", false},
}};

using Metadata = std::unordered_map<std::string, std::string>;

// The names in it are the program's own: newer versions of PyTorch replace one that has a quote by `None`, but have it
// in typed metadata. Found by the namespace of the argument, since older versions have no such function.
template <typename Config>
Metadata saved(Metadata (*save)(const at::RecordFunction&, Config), const at::RecordFunction& function,
               const std::remove_cvref_t<Config>& config) {
  if constexpr (requires { saveNcclMetaTyped(function, config); }) {
    auto typed = saveNcclMetaTyped(function, config);
    Metadata metadata = save(function, config);
    for (const auto& [key, value] : typed) {
      auto found = metadata.find(key);
      if (value.isString() && found != metadata.end() && found->second.starts_with('"')) {
        found->second = '"' + value.toStringRef() + '"';
      }
    }
    return metadata;
  } else {
    return save(function, config);
  }
}

// In older versions of PyTorch the second parameter is a bool (whether to cut lists), in newer ones a struct.
template <typename Config>
Metadata metadata_by(Metadata (*save)(const at::RecordFunction&, Config), const at::RecordFunction& function) {
  using Plain = std::remove_cvref_t<Config>;
  if constexpr (std::is_constructible_v<Plain, bool, bool, bool, bool>) {
    // Lists are not cut; inputs are left out, since they are gone at the end of a function.
    return saved(save, function, Plain(false, true, false, true));
  } else {
    return save(function, Plain(false));
  }
}

}  // namespace

bool write_kernel(Bytes& out, const at::RecordFunction& function) {
  const Inputs inputs = function.kwinputs();
  if (inputs.empty()) return false;
  std::string backend = text_of(inputs, "kernel_backend");
  if (backend.empty()) return false;
  std::string file = backend == "triton" ? text_of(inputs, "kernel_file") : "";
  auto stream = inputs.find("stream");
  bool has_stream = backend == "triton" && stream != inputs.end() && stream->second.isInt();
  out.text(backend);
  out.text(file.substr(file.find_last_of('/') + 1));
  out.reserve(1 + Bytes::kNumber);
  out.byte(has_stream);
  if (has_stream) out.signed_number(stream->second.toInt());
  return true;
}

bool write_comms(Bytes& out, const at::RecordFunction& function) {
  Metadata metadata = metadata_by(&torch::profiler::impl::saveNcclMeta, function);
  out.reserve(Bytes::kNumber);
  size_t count = 0;
  for (const CommsAttribute& attribute : kAttributes) count += metadata.count(attribute.kineto_name);
  if (count == 0) return false;
  out.number(count);
  for (const CommsAttribute& attribute : kAttributes) {
    auto found = metadata.find(attribute.kineto_name);
    if (found == metadata.end()) continue;
    // Texts are between quotes, and not escaped.
    std::string_view value = found->second;
    bool is_text = value.size() >= 2 && value.front() == '"' && value.back() == '"';
    if (is_text) value = value.substr(1, value.size() - 2);
    out.text(attribute.et_name);
    out.reserve(2);
    out.byte(attribute.is_number);
    out.byte(is_text);
    out.text(value);
  }
  return true;
}

}  // namespace tracebraid
