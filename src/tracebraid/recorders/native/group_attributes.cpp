#include "group_attributes.h"

#ifdef TRACEBRAID_DISTRIBUTED

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace tracebraid {
namespace {

constexpr std::string_view kProcessGroupClass = "__torch__.torch.classes.c10d.ProcessGroup";
constexpr std::string_view kDefaultGroup = "default_pg";  // its list of ranks is empty: it has all

struct GroupAttribute {
  const char* name;
  bool is_number;
  std::string value;
};

using GroupAttributes = std::vector<GroupAttribute>;
using Ranks = std::vector<uint64_t>;

// Null where a value is no process group.
c10::intrusive_ptr<c10d::ProcessGroup> group_of(const c10::IValue& value) {
  if (!value.isObject()) return {};
  const c10::ivalue::Object& object = value.toObjectRef();
  if (object.slots().size() != 1 || !object.getSlot(0).isCapsule() || object.name() != kProcessGroupClass) return {};
  return c10::static_intrusive_pointer_cast<c10d::ProcessGroup>(object.getSlot(0).toCapsule());
}

// Older versions of PyTorch keep the ranks in the options of each backend alone: none are read there. Options of other
// backends than these may be Python objects.
template <typename Group>
Ranks ranks_of(const Group& group) {
  using Type = typename Group::BackendType;
  Type type = group.getBackendType();
  if (type != Type::GLOO && type != Type::NCCL) return {};
  auto backend = group.getDefaultBackend();
  if constexpr (requires { backend->getBackendOptions()->global_ranks_in_group; }) {
    auto options = backend->getBackendOptions();
    if (options) return Ranks(options->global_ranks_in_group);
  }
  return {};
}

// Older versions of PyTorch have the types of backends, and no names of them.
template <typename Group>
std::string backend_of(const Group& group) {
  auto type = group.getBackendType();
  if constexpr (requires { Group::backendTypeToString(type); }) {
    return Group::backendTypeToString(type);
  } else {
    constexpr std::array<const char*, 6> kNames{"undefined", "gloo", "nccl", "ucc", "mpi", "custom"};
    return kNames.at(type);
  }
}

// A regular list as its start and stride, as PyTorch writes it, else in full.
void add_ranks(GroupAttributes& attributes, const Ranks& ranks) {
  uint64_t stride = ranks.size() > 1 ? ranks[1] - ranks[0] : 1;
  bool is_regular = ranks.size() < 2 || ranks[1] > ranks[0];
  for (size_t i = 1; i < ranks.size() && is_regular; i++) is_regular = ranks[i] == ranks[i - 1] + stride;
  if (is_regular) {
    attributes.push_back({"global_rank_start", true, std::to_string(ranks.front())});
    attributes.push_back({"global_rank_stride", true, std::to_string(stride)});
    return;
  }
  std::string list;
  for (uint64_t rank : ranks) list += (list.empty() ? "[" : ", ") + std::to_string(rank);
  attributes.push_back({"pg_ranks", false, list + "]"});
}

// Functions of the base class are named with their class, as those of one written in Python would call into it.
GroupAttributes attributes_of(const c10d::ProcessGroup& group) {
  using Group = c10d::ProcessGroup;
  GroupAttributes attributes;
  const std::string& description = group.Group::getGroupDesc();
  try {
    attributes.push_back({"pg_name", false, group.Group::getGroupName()});
  } catch (const std::exception&) {
    // It has no backend, which has its name.
  }
  attributes.push_back({"pg_desc", false, description});
  int size = group.Group::getSize();
  attributes.push_back({"pg_size", true, std::to_string(size)});
  try {
    Ranks ranks = ranks_of(group);
    if (ranks.size() == static_cast<size_t>(size)) {
      add_ranks(attributes, ranks);
    } else if (ranks.empty() && description == kDefaultGroup) {
      attributes.push_back({"global_rank_start", true, "0"});
      attributes.push_back({"global_rank_stride", true, "1"});
    }
  } catch (const std::exception&) {
    // Its default backend was not made, or has no options: its name and size remain.
  }
  attributes.push_back({"pg_backend", false, backend_of(group)});
  return attributes;
}

}  // namespace

bool write_process_group(Bytes& out, Values inputs) {
  for (const c10::IValue& value : inputs) {
    if (!value.isObject()) continue;
    GroupAttributes attributes;
    try {
      auto group = group_of(value);
      if (!group) continue;
      attributes = attributes_of(*group);
    } catch (const std::exception&) {
      continue;
    }
    out.reserve(Bytes::kNumber);
    out.number(attributes.size());
    for (const GroupAttribute& attribute : attributes) {
      out.text(attribute.name);
      out.reserve(2);
      out.byte(attribute.is_number);
      out.byte(!attribute.is_number);
      out.text(attribute.value);
    }
    return true;
  }
  return false;
}

}  // namespace tracebraid

#else

namespace tracebraid {

bool write_process_group(Bytes&, Values) { return false; }

}  // namespace tracebraid

#endif
