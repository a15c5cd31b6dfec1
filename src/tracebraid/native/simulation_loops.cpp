// Loops of `simulation`: replays of a graph, and buckets of collectives.
#include <algorithm>
#include <cmath>

#include "loops.h"

namespace {

using tracebraid::Array;
using tracebraid::filled;
using tracebraid::Floats;
using tracebraid::Ids;
using tracebraid::Ints;
using tracebraid::Items;

Array<int64_t> replay_occurrences(Ints key) {
  int64_t highest = -1;
  for (int64_t entry = 0; entry < key.size(); entry++) highest = std::max(highest, key[entry]);
  auto seen = filled<int64_t>(highest + 1, 0);
  auto found = filled<int64_t>(key.size(), 0);
  for (int64_t entry = 0; entry < key.size(); entry++) found[entry] = seen[key[entry]]++;
  return found;
}
TRACEBRAID_LOOP(replay_occurrences)

Array<int64_t> replay_replay(Ints first, Ids before, Ints work_ns, Ints residual_ns) {
  auto times = filled<int64_t>(residual_ns.size(), 0);
  for (int64_t moment = 0; moment < residual_ns.size(); moment++) {
    int64_t latest = 0;
    for (int64_t edge = first[moment]; edge < first[moment + 1]; edge++) {
      latest = std::max(latest, times[before[edge]] + work_ns[edge]);
    }
    times[moment] = latest + residual_ns[moment];
  }
  return times;
}
TRACEBRAID_LOOP(replay_replay)

int64_t replay_residual_before(Ints waited, Ints residual_ns, Ints times, int64_t moment, int64_t until) {
  int64_t lost = 0;
  while (moment >= 0 && times[moment] > until) {
    lost += std::min(residual_ns[moment], times[moment] - until);
    moment = waited[moment];
  }
  return lost;
}
TRACEBRAID_LOOP(replay_residual_before)

Array<int64_t> merge_buckets(Ints key, Ints size, double most_bytes) {
  Array<int64_t> found;
  int64_t number = 0;
  double held = 0.0;
  for (int64_t row = 0; row < key.size(); row++) {
    const auto bytes = static_cast<double>(size[row]);
    if (row > 0 && (key[row] != key[row - 1] || held + bytes > most_bytes)) {
      number++;
      held = 0.0;
    }
    held += bytes;
    found.add(number);
  }
  return found;
}
TRACEBRAID_LOOP(merge_buckets)

void sweep_replay(Ints first, Ids before, Ints work_ns, Ids group, Ints residual_ns, Floats factor,
                  Items<double> times) {
  const int64_t count = times.width();
  for (int64_t moment = 0; moment < residual_ns.size(); moment++) {
    double* own = times.begin() + moment * count;
    for (int64_t edge = first[moment]; edge < first[moment + 1]; edge++) {
      const double* start = times.begin() + before[edge] * count;
      const auto work = static_cast<double>(work_ns[edge]);
      if (work_ns[edge] == 0) {
        for (int64_t scenario = 0; scenario < count; scenario++)
          own[scenario] = std::max(own[scenario], start[scenario]);
      } else {
        const double* scale = factor.begin() + group[edge] * factor.width();
        for (int64_t scenario = 0; scenario < count; scenario++) {
          own[scenario] = std::max(own[scenario], start[scenario] + std::rint(work * scale[scenario]));
        }
      }
    }
    if (residual_ns[moment] != 0) {
      const auto residual = static_cast<double>(residual_ns[moment]);
      for (int64_t scenario = 0; scenario < count; scenario++) own[scenario] += residual;
    }
  }
}
TRACEBRAID_LOOP(sweep_replay)

void sweep_mark(Ints latest, Ids before, int64_t end, Items<bool> on_path) {
  for (int64_t moment = end; latest[moment] >= 0; moment = before[latest[moment]]) on_path[latest[moment]] = true;
}
TRACEBRAID_LOOP(sweep_mark)

}  // namespace
