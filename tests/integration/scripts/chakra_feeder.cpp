// Hands out all nodes of a file with Chakra's own feeder, by dependency: how many, their time in us, their bytes.
#include <cstdint>
#include <iostream>

#include "et_feeder.h"

int main(int, char** argv) {
  Chakra::ETFeeder feeder(argv[1]);
  uint64_t nodes = 0, time_us = 0, size_bytes = 0;
  while (feeder.hasNodesToIssue()) {
    const auto node = feeder.getNextIssuableNode();
    if (node == nullptr) {
      std::cerr << "no node is ready" << std::endl;
      return 1;
    }
    ++nodes;
    time_us += node->runtime();
    if (node->type() >= ChakraProtoMsg::COMM_SEND_NODE) {
      size_bytes += node->comm_size();
    }
    feeder.freeChildrenNodes(node->id());
    feeder.removeNode(node->id());
  }
  std::cout << nodes << " " << time_us << " " << size_bytes << std::endl;
}
