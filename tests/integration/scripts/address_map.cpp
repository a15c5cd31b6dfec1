// Holds the recorder's hash table against the standard one, over many random insertions and erasures.
#include <cstdio>
#include <random>
#include <unordered_map>

#include "address_map.h"

int main() {
  std::mt19937_64 random(7);
  for (int range : {3, 40, 700, 20000}) {
    tracebraid::AddressMap map(4);
    std::unordered_map<const void*, uint64_t> expected;
    for (int step = 0; step < 200000; step++) {
      const void* key = reinterpret_cast<const void*>(16 * (1 + random() % range));
      if (random() % 2) {
        map.set(key, step);
        expected[key] = step;
      } else {
        map.erase(key);
        expected.erase(key);
      }
      const void* asked = reinterpret_cast<const void*>(16 * (1 + random() % range));
      uint64_t* found = map.find(asked);
      auto there = expected.find(asked);
      bool agrees = found == nullptr ? there == expected.end() : there != expected.end() && *found == there->second;
      if (!agrees || map.size() != expected.size()) {
        std::printf("range %d, step %d\n", range, step);
        return 1;
      }
    }
    for (const auto& [key, value] : expected) {
      if (map.find(key) == nullptr || *map.find(key) != value) return 1;
    }
  }
  return 0;
}
