// Collectives as NCCL's process group tells them to observers, without NCCL.
#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>

extern "C" void all_to_all(const char* group) {
  at::Tensor from = at::ones({4, 2}), to = at::zeros({8});
  std::vector<int64_t> in_split{3, 5}, out_split(40, 1);
  RECORD_PARAM_COMMS_DATA(std::make_tuple(int64_t{7}, false), std::make_tuple(std::string("3"), std::string(group)),
                          std::vector<at::Tensor>{from}, std::vector<at::Tensor>{to}, 1, "all_to_all", 8, 8, at::kFloat,
                          in_split, out_split, 4, 2, 16);
}
