// Loops of `graph`: the order of moments, residuals, slack, and the critical path.
#include <algorithm>
#include <limits>
#include <vector>

#include "loops.h"

namespace {

using tracebraid::Array;
using tracebraid::Codes;
using tracebraid::filled;
using tracebraid::Flags;
using tracebraid::Ids;
using tracebraid::Ints;
using tracebraid::Items;

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();

// --- edge_order ---

Array<int32_t> edge_order_ordered(Ids by_time, Ints first, Ids before) {
  Array<int32_t> ordered;
  auto placed = filled<bool>(by_time.size(), false);
  struct Open {
    int64_t moment, edge;
  };
  std::vector<Open> stack;
  for (const int64_t moment : by_time) {
    if (placed[moment]) continue;
    placed[moment] = true;
    stack.push_back({moment, first[moment]});
    while (!stack.empty()) {
      Open& current = stack.back();
      if (current.edge < first[current.moment + 1]) {
        const int64_t waited = before[current.edge++];
        if (!placed[waited]) {
          placed[waited] = true;
          stack.push_back({waited, first[waited]});
        }
      } else {
        ordered.add(static_cast<int32_t>(current.moment));
        stack.pop_back();
      }
    }
  }
  return ordered;
}
TRACEBRAID_LOOP(edge_order_ordered)

int64_t edge_order_count(Ids before, Ids after, Ints work_ns, int64_t activity, Ints times_ns, Items<int64_t> counts) {
  int64_t backward = 0;
  for (int64_t edge = 0; edge < before.size(); edge++) {
    const int64_t waits = after[edge] + 2 * activity, waited = before[edge] + 2 * activity;
    if (times_ns[waited] + work_ns[edge] <= times_ns[waits]) {
      counts[waits + 1]++;
    } else {
      backward++;
    }
  }
  return backward;
}
TRACEBRAID_LOOP(edge_order_count)

void edge_order_fill(Ids before, Ids after, Ints work_ns, Codes kind, Ids owner, int64_t activity, Ints times_ns,
                     Items<int64_t> free, Items<int32_t> into_before, Items<int64_t> into_work,
                     Items<uint8_t> into_kind, Items<int32_t> into_owner) {
  for (int64_t edge = 0; edge < before.size(); edge++) {
    const int64_t waits = after[edge] + 2 * activity, waited = before[edge] + 2 * activity;
    if (times_ns[waited] + work_ns[edge] > times_ns[waits]) continue;
    const int64_t row = free[waits]++;
    into_before[row] = static_cast<int32_t>(waited);
    into_work[row] = work_ns[edge];
    into_kind[row] = kind[edge];
    into_owner[row] = static_cast<int32_t>(owner[edge] + activity);
  }
}
TRACEBRAID_LOOP(edge_order_fill)

void edge_order_count_in_order(Ints first, Ids before, Ids moments, Ids position, Items<int64_t> result) {
  for (int64_t number = 0; number < moments.size(); number++) {
    const int64_t moment = moments[number];
    int64_t count = 0;
    for (int64_t edge = first[moment]; edge < first[moment + 1]; edge++) count += position[before[edge]] < number;
    result[number + 1] = result[number] + count;
  }
}
TRACEBRAID_LOOP(edge_order_count_in_order)

void edge_order_fill_in_order(Ints first, Ids before, Ints work_ns, Codes kind, Ids owner, Ids moments, Ids position,
                              Items<int32_t> into_before, Items<int64_t> into_work, Items<uint8_t> into_kind,
                              Items<int32_t> into_owner) {
  int64_t row = 0;
  for (int64_t number = 0; number < moments.size(); number++) {
    const int64_t moment = moments[number];
    for (int64_t edge = first[moment]; edge < first[moment + 1]; edge++) {
      const int32_t waited = position[before[edge]];
      if (waited >= number) continue;
      into_before[row] = waited;
      into_work[row] = work_ns[edge];
      into_kind[row] = kind[edge];
      into_owner[row] = owner[edge];
      row++;
    }
  }
}
TRACEBRAID_LOOP(edge_order_fill_in_order)

// --- thread_edges ---

Array<int64_t> thread_edges_nested(Ints order, Ints parent, Ints thread, int64_t threads) {
  Array<int64_t> moments;
  moments.reserve(2 * (order.size() + threads));
  std::vector<int64_t> open;
  int64_t current = -1;
  for (int64_t index = 0; index <= order.size(); index++) {
    const int64_t event = index < order.size() ? order[index] : -1;
    const bool begins = event >= 0 && thread[event] != current;
    // Close what the next event does not lie in.
    while (!open.empty() && (event < 0 || begins || open.back() != parent[event])) {
      moments.add(2 * open.back() + 1);
      open.pop_back();
    }
    if (current >= 0 && (event < 0 || begins)) moments.add(2 * current + 1);
    if (event < 0) break;
    if (begins) {
      current = thread[event];
      moments.add(2 * current);
    }
    moments.add(2 * event);
    open.push_back(event);
  }
  return moments;
}
TRACEBRAID_LOOP(thread_edges_nested)

Array<int64_t> thread_edges_innermost(Ints moments, int64_t first_thread) {
  Array<int64_t> found;
  found.reserve(moments.size());
  std::vector<int64_t> open;
  auto ended = filled<bool>(moments.size() / 2 + 1, false);
  for (const int64_t moment : moments) {
    const int64_t activity = moment / 2;
    const bool begins = moment % 2 == 0;
    if (activity >= first_thread && begins) open.clear();
    while (!open.empty() && ended[open.back()]) open.pop_back();
    found.add(open.empty() ? activity : open.back());
    if (begins) {
      open.push_back(activity);
    } else {
      ended[activity] = true;
    }
  }
  return found;
}
TRACEBRAID_LOOP(thread_edges_innermost)

// --- joining ---

void joining_drop_waiting(Ints first, Ids before, Items<int64_t> work_ns, Codes kind, int64_t device, int64_t host,
                          Ints ends, Ints until_ns, Ints times_ns) {
  for (int64_t member = 0; member < ends.size(); member++) {
    const int64_t end = ends[member];
    for (int64_t edge = first[end]; edge < first[end + 1]; edge++) {
      const bool own = kind[edge] == device || kind[edge] == host;
      if (own && times_ns[before[edge]] <= until_ns[member]) work_ns[edge] = 0;
    }
  }
}
TRACEBRAID_LOOP(joining_drop_waiting)

std::tuple<Array<int64_t>, Array<int64_t>> joining_residuals(Ints first, Ids before, Ints work_ns, Ints times_ns,
                                                             int64_t earliest) {
  auto residual_ns = filled<int64_t>(times_ns.size(), 0), found = filled<int64_t>(times_ns.size(), -1);
  for (int64_t moment = 0; moment < times_ns.size(); moment++) {
    int64_t latest = earliest;
    for (int64_t edge = first[moment]; edge < first[moment + 1]; edge++) {
      const int64_t ready = times_ns[before[edge]] + work_ns[edge];
      if (found[moment] < 0 || ready > latest) {
        latest = ready;
        found[moment] = edge;
      }
    }
    residual_ns[moment] = times_ns[moment] - latest;
  }
  return {std::move(residual_ns), std::move(found)};
}
TRACEBRAID_LOOP(joining_residuals)

// --- latencies, latest_edges ---

Array<int64_t> latencies_latest_of_others(Ints after, Ints ready_ns, Items<int64_t> latest, Items<int64_t> second,
                                          Items<int64_t> edge_of) {
  for (int64_t edge = 0; edge < after.size(); edge++) {
    const int64_t moment = after[edge], ready = ready_ns[edge];
    if (ready > latest[moment] || edge_of[moment] < 0) {
      second[moment] = latest[moment];
      latest[moment] = ready;
      edge_of[moment] = edge;
    } else if (ready > second[moment]) {
      second[moment] = ready;
    }
  }
  auto found = filled<int64_t>(after.size(), 0);
  for (int64_t edge = 0; edge < after.size(); edge++) {
    const int64_t moment = after[edge];
    found[edge] = edge_of[moment] == edge ? second[moment] : latest[moment];
  }
  return found;
}
TRACEBRAID_LOOP(latencies_latest_of_others)

Array<int64_t> latest_edges_latest(Ints first, Ints ready_ns) {
  auto found = filled<int64_t>(first.size() - 1, -1);
  for (int64_t moment = 0; moment < first.size() - 1; moment++) {
    for (int64_t edge = first[moment]; edge < first[moment + 1]; edge++) {
      if (found[moment] < 0 || ready_ns[edge] > ready_ns[found[moment]]) found[moment] = edge;
    }
  }
  return found;
}
TRACEBRAID_LOOP(latest_edges_latest)

// --- critical_path: step_bounds, find_path ---

std::tuple<Array<int64_t>, Array<int64_t>, Array<bool>, Array<int64_t>, Array<int64_t>> step_bounds_walk(
    Ints first, Ids before, Ints work_ns, Ints times_ns, Ints ranks, int64_t rank, int64_t end, int64_t start_ns) {
  Array<int64_t> moments, edges, starts, ends;
  Array<bool> gaps;
  int64_t current = end;
  const auto add = [&](int64_t edge, bool gap, int64_t from_ns, int64_t to_ns) {
    moments.add(current);
    edges.add(edge);
    gaps.add(gap);
    starts.add(from_ns);
    ends.add(to_ns);
  };
  while (times_ns[current] > start_ns) {
    int64_t latest = -1, latest_ns = kLowest;
    for (int64_t edge = first[current]; edge < first[current + 1]; edge++) {
      const int64_t of = ranks[before[edge]];
      const bool allowed = rank < 0 || of == rank || (of == -1 && ranks[current] == rank);
      const int64_t ready_ns = times_ns[before[edge]] + work_ns[edge];
      if (allowed && ready_ns > latest_ns) {
        latest = edge;
        latest_ns = ready_ns;
      }
    }
    latest_ns = std::max(latest_ns, start_ns);
    if (latest_ns < times_ns[current]) add(latest, true, latest_ns, times_ns[current]);
    if (latest < 0 || latest_ns == start_ns) break;
    const int64_t begun = std::max(times_ns[before[latest]], start_ns);
    if (begun < latest_ns) add(latest, false, begun, latest_ns);
    current = before[latest];
  }
  return {std::move(moments), std::move(edges), std::move(gaps), std::move(starts), std::move(ends)};
}
TRACEBRAID_LOOP(step_bounds_walk)

void find_path_pass_back(Ints first, Ids before, Ints work_ns, Ints residual_ns, Items<int64_t> latest_ns) {
  for (int64_t moment = residual_ns.size() - 1; moment >= 0; moment--) {
    const int64_t allowed = latest_ns[moment] - residual_ns[moment];
    for (int64_t edge = first[moment]; edge < first[moment + 1]; edge++) {
      latest_ns[before[edge]] = std::min(latest_ns[before[edge]], allowed - work_ns[edge]);
    }
  }
}
TRACEBRAID_LOOP(find_path_pass_back)

struct Window {
  Ints first, before, work_ns, activity;
  Flags resampled, allowed;
  Ints time_ns, before_ns, residual_ns, ends, limits;

  static Window from(tracebraid::Reader& reader) {
    const auto ints = [&] { return reader.take<Ints>(); };
    const auto flags = [&] { return reader.take<Flags>(); };
    return {ints(), ints(), ints(), ints(), flags(), flags(), ints(), ints(), ints(), ints(), ints()};
  }
};

// "Minimal standard" generator (Park and Miller, 1988).
constexpr int64_t kMultiplier = 48271, kModulus = 2147483647;

void find_path_count(Window window, Ints group_first, Ints group_count, Ints own_ns, Ints drawn_ns, int64_t seed,
                     Items<int64_t> counted) {
  auto last_seen = filled<int64_t>(own_ns.size(), -1);
  auto factor = filled<double>(own_ns.size(), 1.0);
  const int64_t count = window.time_ns.size(), start_ns = window.limits[0];
  auto times = filled<int64_t>(count, 0), latest_edge = filled<int64_t>(count, -1);
  int64_t state = seed;
  for (int64_t replay = 0; replay < window.limits[1]; replay++) {
    for (int64_t activity = 0; activity < own_ns.size(); activity++) {
      if (group_count[activity] <= 1 || own_ns[activity] <= 0) continue;
      state = state * kMultiplier % kModulus;
      const int64_t drawn = group_first[activity] + state * group_count[activity] / kModulus;
      factor[activity] = static_cast<double>(drawn_ns[drawn]) / static_cast<double>(own_ns[activity]);
    }
    for (int64_t moment = 0; moment < count; moment++) {
      int64_t latest = kLowest, allowed = kLowest, chosen = -1;
      for (int64_t edge = window.first[moment]; edge < window.first[moment + 1]; edge++) {
        int64_t work = window.work_ns[edge];
        if (window.resampled[edge] && work > 0) {
          work = static_cast<int64_t>(static_cast<double>(work) * factor[window.activity[edge]]);
        }
        const int64_t before = window.before[edge];
        const int64_t ready = (before >= 0 ? times[before] : window.before_ns[edge]) + work;
        latest = std::max(latest, ready);
        if (window.allowed[edge] && ready > allowed) {
          allowed = ready;
          chosen = edge;
        }
      }
      times[moment] = latest == kLowest ? window.time_ns[moment] : latest + window.residual_ns[moment];
      latest_edge[moment] = chosen;
    }
    int64_t current = window.ends[0];
    for (const int64_t end : window.ends) {
      if (times[end] > times[current]) current = end;
    }
    while (current >= 0 && times[current] > start_ns && latest_edge[current] >= 0) {
      const int64_t edge = latest_edge[current], activity = window.activity[edge];
      if (window.resampled[edge] && window.work_ns[edge] > 0 && last_seen[activity] != replay) {
        last_seen[activity] = replay;
        counted[activity]++;
      }
      current = window.before[edge];
    }
  }
}
TRACEBRAID_LOOP(find_path_count)

}  // namespace
