// Loops of `chakra` over the nodes of Chakra traces and what they depend on: their order, their times, and which
// dependencies say nothing new. The dependencies of row r are `before[first[r]]` to `before[first[r + 1] - 1]`.
#include <algorithm>
#include <limits>
#include <vector>

#include "loops.h"

namespace {

using tracebraid::Array;
using tracebraid::filled;
using tracebraid::Flags;
using tracebraid::Ids;
using tracebraid::Ints;
using tracebraid::Items;
using Roles = Items<const int8_t>;

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min(), kHighest = std::numeric_limits<int64_t>::max();

// --- dependencies ---

Array<int64_t> dependencies_ordered(Ints first_child, Ints child, Items<int64_t> waits) {
  Array<int64_t> order;
  for (int64_t row = 0; row < waits.size(); row++) {
    if (waits[row] == 0) order.add(row);
  }
  for (size_t begin = 0; begin < order.size(); begin++) {
    const int64_t row = order[begin];
    for (int64_t entry = first_child[row]; entry < first_child[row + 1]; entry++) {
      if (--waits[child[entry]] == 0) order.add(child[entry]);
    }
  }
  return order;
}
TRACEBRAID_LOOP(dependencies_ordered)

Array<int64_t> dependencies_depths(Ints first, Ints before, Ints order) {
  auto depth = filled<int64_t>(first.size() - 1, 0);
  for (const int64_t row : order) {
    for (int64_t entry = first[row]; entry < first[row + 1]; entry++) {
      depth[row] = std::max(depth[row], depth[before[entry]] + 1);
    }
  }
  return depth;
}
TRACEBRAID_LOOP(dependencies_depths)

Array<int64_t> dependencies_ends(Ints first, Ints before, Ints order, Ints duration) {
  auto end = filled<int64_t>(first.size() - 1, 0);
  for (const int64_t row : order) {
    for (int64_t entry = first[row]; entry < first[row + 1]; entry++) end[row] = std::max(end[row], end[before[entry]]);
    end[row] += duration[row];
  }
  return end;
}
TRACEBRAID_LOOP(dependencies_ends)

// --- checking/rank_facts ---

std::tuple<Array<int64_t>, Array<int64_t>> rank_facts_starts(Ints first, Ints before, Ints order, Roles communicates,
                                                             Ints duration_us) {
  auto start = filled<int64_t>(communicates.size(), 0), level = filled<int64_t>(communicates.size(), 0);
  for (const int64_t row : order) {
    int64_t begins = 0, deepest = 0;
    for (int64_t entry = first[row]; entry < first[row + 1]; entry++) {
      const int64_t other = before[entry];
      begins = std::max(begins, start[other] + (communicates[other] != 0 ? 0 : duration_us[other]));
      deepest = std::max(deepest, level[other]);
    }
    start[row] = begins;
    level[row] = deepest + (communicates[row] == 1 ? 1 : 0);
  }
  return {std::move(start), std::move(level)};
}
TRACEBRAID_LOOP(rank_facts_starts)

std::tuple<Array<int64_t>, Array<int64_t>, Array<int64_t>> rank_facts_contracted(Ints first, Ints before, Ints order,
                                                                                 Roles communicates,
                                                                                 int64_t steps_back) {
  auto stands_for = filled<int64_t>(communicates.size(), -1);
  Array<int64_t> kept, kept_first, kept_before;
  kept_first.add(0);
  std::vector<int64_t> found, walked;
  for (const int64_t row : order) {
    found.clear();
    for (int64_t entry = first[row]; entry < first[row + 1]; entry++) {
      if (stands_for[before[entry]] >= 0) found.push_back(stands_for[before[entry]]);
    }
    if (found.size() > 1) {
      std::sort(found.begin(), found.end());
      const int64_t last = found.back();
      size_t unique = 0;
      for (size_t entry = 0; entry + 1 < found.size(); entry++) {
        const int64_t own = found[entry];
        // Is it waited for by the last of them already? Gone back along what that one waits for.
        bool needed = own != found[entry + 1];
        walked.assign(1, last);
        for (size_t begin = 0; begin < walked.size() && needed; begin++) {
          const int64_t at = walked[begin];
          for (int64_t edge = kept_first[at]; edge < kept_first[at + 1]; edge++) {
            if (kept_before[edge] == own) {
              needed = false;
            } else if (kept_before[edge] > own && static_cast<int64_t>(walked.size()) < steps_back) {
              walked.push_back(kept_before[edge]);
            }
          }
        }
        if (needed) found[unique++] = own;
      }
      found[unique] = last;
      found.resize(unique + 1);
    }
    if (communicates[row] == 0 && found.size() < 2) {
      stands_for[row] = found.empty() ? -1 : found[0];
      continue;
    }
    stands_for[row] = static_cast<int64_t>(kept.size());
    kept.add(row);
    kept_before.add(found.data(), found.size());
    kept_first.add(static_cast<int64_t>(kept_before.size()));
  }
  return {std::move(kept), std::move(kept_first), std::move(kept_before)};
}
TRACEBRAID_LOOP(rank_facts_contracted)

// --- exporting: host_tasks, merged, rank_nodes ---

std::tuple<Array<int64_t>, Array<int64_t>> host_tasks_followed(Ints firsts, Ints following) {
  Array<int64_t> moments, thread;
  for (int64_t index = 0; index < firsts.size(); index++) {
    for (int64_t current = firsts[index]; current >= 0; current = following[current]) {
      moments.add(current);
      thread.add(index);
    }
  }
  return {std::move(moments), std::move(thread)};
}
TRACEBRAID_LOOP(host_tasks_followed)

Array<int64_t> copied(Ints items) {
  Array<int64_t> made;
  made.add(items.begin(), static_cast<size_t>(items.size()));
  return made;
}

Array<int64_t> merged_last(Ids order, Ints first, Ids before, Ints work_ns, Ints times_ns, Ints own) {
  auto found = copied(own);
  for (const int64_t row : order) {
    if (own[row] >= 0) continue;
    int64_t latest = kLowest / 2;
    for (int64_t edge = first[row]; edge < first[row + 1]; edge++) {
      const int64_t ready = times_ns[before[edge]] + work_ns[edge];
      if (ready > latest) {
        latest = ready;
        found[row] = found[before[edge]];
      }
    }
  }
  return found;
}
TRACEBRAID_LOOP(merged_last)

Array<int64_t> merged_latest(Ids order, Ints first, Ids before, Ints position) {
  auto found = copied(position);
  for (const int64_t row : order) {
    for (int64_t edge = first[row]; edge < first[row + 1]; edge++) {
      found[row] = std::max(found[row], found[before[edge]]);
    }
  }
  return found;
}
TRACEBRAID_LOOP(merged_latest)

std::tuple<Array<int64_t>, Array<int64_t>, Array<int64_t>> rank_nodes_sets(Ids order, Ints first, Ints before,
                                                                           Ints task, Ints lane, Ints end_ns) {
  auto begin = filled<int64_t>(order.size(), 0), size = filled<int64_t>(order.size(), 0);
  Array<int64_t> found;
  for (const int64_t point : order) {
    begin[point] = static_cast<int64_t>(found.size());
    for (int64_t entry = first[point]; entry < first[point + 1]; entry++) {
      const int64_t own = task[entry];
      const int64_t count = own >= 0 ? 1 : size[before[entry]];
      for (int64_t index = 0; index < count; index++) {
        const int64_t added = own >= 0 ? own : found[begin[before[entry]] + index];
        // Those of its lane that ended before are covered by it, and it by one that ended later.
        int64_t kept = begin[point];
        bool covered = false;
        for (int64_t other = begin[point]; other < static_cast<int64_t>(found.size()); other++) {
          const int64_t old = found[other];
          const bool same = lane[added] >= 0 && lane[old] == lane[added];
          covered = covered || old == added || (same && end_ns[old] > end_ns[added]);
          if (!same || end_ns[old] >= end_ns[added]) found[kept++] = old;
        }
        found.cut(kept);
        if (!covered) found.add(added);
      }
    }
    size[point] = static_cast<int64_t>(found.size()) - begin[point];
  }
  return {std::move(found), std::move(begin), std::move(size)};
}
TRACEBRAID_LOOP(rank_nodes_sets)

// --- exporting/reduction ---

Array<int64_t> reduction_chains(Ints first, Ints before, Ints lane) {
  Array<int64_t> chain;
  auto is_end = filled<bool>(lane.size(), true);
  int64_t chains = 0;
  for (int64_t row = 0; row < lane.size(); row++) {
    int64_t found = -1;
    // By descending row: the earliest is taken, for the latest is the call that a thread goes on from.
    for (int64_t edge = first[row]; edge < first[row + 1]; edge++) {
      const int64_t other = before[edge];
      if (is_end[other] && (found < 0 || lane[found] != lane[row] || lane[other] == lane[row])) found = other;
    }
    if (found >= 0) is_end[found] = false;
    chain.add(found >= 0 ? chain[found] : chains++);
  }
  return chain;
}
TRACEBRAID_LOOP(reduction_chains)

void reduction_mark_implied(Ints first, Ints before, Flags tested, Ints entry, int64_t entries, Items<bool> implied) {
  const int64_t nodes = first.size() - 1;
  auto clocks = filled<int32_t>(nodes * entries, -1);
  for (int64_t row = 0; row < nodes; row++) {
    int32_t* clock = &clocks[row * entries];
    for (int64_t edge = first[row]; edge < first[row + 1]; edge++) {
      const int64_t other = before[edge], own = entry[other];
      const bool is_held = own >= 0 && own < entries;
      if (is_held && tested[edge] && clock[own] >= other) {
        implied[edge] = true;
        continue;
      }
      const int32_t* known = &clocks[other * entries];
      for (int64_t at = 0; at < entries; at++) clock[at] = std::max(clock[at], known[at]);
      if (is_held) clock[own] = std::max(clock[own], static_cast<int32_t>(other));
    }
  }
}
TRACEBRAID_LOOP(reduction_mark_implied)

void reduction_mark(Ints first, Ints before, Flags own, Items<bool> no_first, Items<bool> no_last) {
  const int64_t count = own.size();
  auto reached = filled<bool>(count, false);
  for (int64_t row = 0; row < count; row++) {
    for (int64_t edge = first[row]; edge < first[row + 1]; edge++) {
      if (own[before[edge]] || reached[before[edge]]) reached[row] = true;
    }
    if (own[row] && reached[row]) no_first[row] = true;
  }
  std::fill_n(reached.begin(), count, false);
  for (int64_t row = count - 1; row >= 0; row--) {
    if (own[row] && reached[row]) no_last[row] = true;
    if (!own[row] && !reached[row]) continue;
    for (int64_t edge = first[row]; edge < first[row + 1]; edge++) reached[before[edge]] = true;
  }
}
TRACEBRAID_LOOP(reduction_mark)

Array<bool> reduction_between(Ints first, Ints before, Flags chosen, Flags free) {
  const int64_t count = chosen.size();
  auto behind = filled<bool>(count, false), ahead = filled<bool>(count, false);
  for (int64_t row = 0; row < count; row++) {
    for (int64_t edge = first[row]; edge < first[row + 1]; edge++) {
      if (free[row] && (chosen[before[edge]] || behind[before[edge]])) behind[row] = true;
    }
  }
  for (int64_t row = count - 1; row >= 0; row--) {
    for (int64_t edge = first[row]; edge < first[row + 1]; edge++) {
      if (free[before[edge]] && (chosen[row] || ahead[row])) ahead[before[edge]] = true;
    }
  }
  for (int64_t row = 0; row < count; row++) behind[row] = behind[row] && ahead[row];
  return behind;
}
TRACEBRAID_LOOP(reduction_between)

Array<int64_t> reduction_releases(Ints first, Ints before, Flags kept, Ints end_ns) {
  auto follows = filled<bool>(kept.size(), false);
  auto found = filled<int64_t>(kept.size(), kLowest);
  for (int64_t row = 0; row < kept.size(); row++) {
    int64_t latest = kLowest;
    for (int64_t edge = first[row]; edge < first[row + 1]; edge++) {
      const int64_t other = before[edge];
      if (kept[other] || follows[other]) {
        follows[row] = true;
        latest = std::max(latest, end_ns[other]);
      } else {
        found[row] = std::max(found[row], end_ns[other]);
      }
    }
    if (latest >= found[row]) found[row] = kLowest;
  }
  return found;
}
TRACEBRAID_LOOP(reduction_releases)

Array<int64_t> reduction_latest_over(Ints first, Ints before, Flags kept, Flags on_lane) {
  auto found = filled<int64_t>(kept.size(), -1);
  for (int64_t row = 0; row < kept.size(); row++) {
    for (int64_t edge = first[row]; edge < first[row + 1]; edge++) {
      const int64_t other = before[edge];
      if (!kept[other]) {
        found[row] = std::max(found[row], found[other]);
      } else if (!kept[row] && on_lane[other]) {
        // What is kept is waited for as it is, but by those that are not.
        found[row] = std::max(found[row], other);
      }
    }
  }
  return found;
}
TRACEBRAID_LOOP(reduction_latest_over)

// --- exporting/replay ---

Array<int64_t> replay_ends(Ints begin, Ints deps, Ints by_rank, Ints duration, Ids first, Ids before, Ints node_of,
                           Ints role, Ints slot, Ints expected, bool single_lane) {
  const int64_t ranks = begin.size() - 1;
  auto end = filled<int64_t>(duration.size(), -1);
  auto at = filled<int64_t>(ranks, 0), lane = filled<int64_t>(ranks, 0), behind = filled<int64_t>(ranks, -1);
  std::vector<int64_t> next_of(by_rank.begin(), by_rank.begin() + ranks);
  int64_t slots = 0;
  for (const int64_t number : slot) slots = std::max(slots, number + 1);
  // Of each slot when its members meet (-1: not known), the latest that came, how many, and the rank that waits last.
  auto meets = filled<int64_t>(slots, -1), latest = filled<int64_t>(slots, 0), come = filled<int64_t>(slots, 0);
  auto waiting = filled<int64_t>(slots, -1);
  auto is_there = filled<bool>(slot.size(), false);
  std::vector<int64_t> ready;
  for (int64_t rank = ranks - 1; rank >= 0; rank--) ready.push_back(rank);
  while (!ready.empty()) {
    const int64_t rank = ready.back();
    ready.pop_back();
    const int64_t offset = begin[rank], nodes = begin[rank + 1] - offset;
    while (at[rank] < nodes) {
      const int64_t own = at[rank], row = offset + own;
      const int64_t low = deps[rank] + first[row];
      const int64_t high = own + 1 < nodes ? deps[rank] + first[row + 1] : deps[rank + 1];
      int64_t start = 0;
      for (int64_t index = low; index < high; index++) start = std::max(start, end[offset + before[index]]);
      const int64_t number = next_of[rank];
      if (number == by_rank[rank + 1] || node_of[number] != own) {
        end[row] = start + duration[row];
        at[rank]++;
        continue;
      }
      const int64_t met_at = slot[number], kind = role[number];
      if (single_lane && kind != 2) start = std::max(start, lane[rank]);
      if (kind == 1) {
        meets[met_at] = start;
        end[row] = start + duration[row];
      } else {
        if (kind == 0 && !is_there[number]) {
          is_there[number] = true;
          come[met_at]++;
          latest[met_at] = std::max(latest[met_at], start);
          if (come[met_at] == expected[number]) meets[met_at] = latest[met_at];
        }
        if (meets[met_at] < 0) {
          behind[rank] = waiting[met_at];
          waiting[met_at] = rank;
          break;
        }
        end[row] = std::max(start, meets[met_at]) + duration[row];
      }
      if (kind != 2) lane[rank] = end[row];
      while (waiting[met_at] >= 0) {
        const int64_t other = waiting[met_at];
        waiting[met_at] = behind[other];
        ready.push_back(other);
      }
      at[rank]++;
      next_of[rank]++;
    }
  }
  return end;
}
TRACEBRAID_LOOP(replay_ends)

// --- plan/meeting_times ---

struct Rows {
  Ints order, rank, block, start_ns, end_ns;
  Flags receives;
  Ints partner;
  Flags follows;

  static Rows from(tracebraid::Reader& reader) {
    const auto ints = [&] { return reader.take<Ints>(); };
    const auto flags = [&] { return reader.take<Flags>(); };
    return {ints(), ints(), ints(), ints(), ints(), flags(), ints(), flags()};
  }
};

std::tuple<Array<int64_t>, Array<int64_t>> meeting_times_latest(Rows rows, int64_t ranks, bool single_lane) {
  const int64_t count = rows.order.size();
  auto latest = filled<int64_t>(count, 0), ends = filled<int64_t>(count, 0);
  // Of each rank: the block that is passed, when it may be met, and all behind it; what takes the lane next.
  auto block = filled<int64_t>(ranks, -1), own = filled<int64_t>(ranks, kHighest);
  auto behind = filled<int64_t>(ranks, kHighest), lane = filled<int64_t>(ranks, kHighest);
  for (int64_t last = count; last > 0;) {
    int64_t first = last - 1;
    while (first > 0 && rows.order[first - 1] == rows.order[first]) first--;
    int64_t meets = kHighest;
    for (int64_t row = first; row < last; row++) {
      const int64_t rank = rows.rank[row];
      if (rows.block[row] != block[rank]) {
        block[rank] = rows.block[row];
        behind[rank] = std::min(own[rank], behind[rank]);
        own[rank] = kHighest;
      }
      int64_t end = std::min(rows.end_ns[row], behind[rank]);
      if (!rows.receives[row]) end = std::min(end, lane[rank]);
      ends[row] = single_lane ? end : rows.end_ns[row];
      meets = std::min(meets, end);
      const int64_t partner = rows.partner[row];
      if (partner >= last) meets = std::min(meets, latest[partner]);
    }
    for (int64_t row = first; row < last; row++) {
      const int64_t rank = rows.rank[row];
      latest[row] = meets;
      own[rank] = std::min(own[rank], meets);
      if (!rows.receives[row]) lane[rank] = meets;
    }
    last = first;
  }
  return {std::move(latest), std::move(ends)};
}
TRACEBRAID_LOOP(meeting_times_latest)

std::tuple<Array<int64_t>, Array<bool>> meeting_times_meetings(Rows rows, Ints latest, Ints ends, int64_t ranks,
                                                               bool single_lane) {
  const int64_t count = rows.order.size();
  auto meets = filled<int64_t>(count, 0), issued = filled<int64_t>(count, 0);
  auto may_lead = filled<bool>(count, false);
  auto block = filled<int64_t>(ranks, -1), own = filled<int64_t>(ranks, kLowest);
  auto before = filled<int64_t>(ranks, kLowest), lane = filled<int64_t>(ranks, kLowest);
  for (int64_t first = 0; first < count;) {
    int64_t last = first + 1;
    while (last < count && rows.order[last] == rows.order[first]) last++;
    int64_t met = kLowest;
    for (int64_t row = first; row < last; row++) {
      const int64_t rank = rows.rank[row];
      if (rows.block[row] != block[rank]) {
        block[rank] = rows.block[row];
        before[rank] = std::max(own[rank], before[rank]);
        own[rank] = kLowest;
      }
      int64_t over = before[rank];
      if (!rows.receives[row]) over = std::max(over, lane[rank]);
      // What follows another row on its stream comes as soon as that is over: the latency is part of its time.
      int64_t comes = std::max(over, std::min(rows.start_ns[row], latest[row]));
      if (single_lane && rows.follows[row] && over > kLowest) comes = over;
      issued[row] = comes;
      met = std::max(met, comes);
      const int64_t partner = rows.partner[row];
      if (partner >= 0 && partner < first) met = std::max(met, meets[partner]);
    }
    for (int64_t row = first; row < last; row++) {
      const int64_t rank = rows.rank[row];
      meets[row] = met;
      may_lead[row] = rows.follows[row] || std::min(rows.start_ns[row], latest[row]) < met;
      own[rank] = std::max(own[rank], single_lane ? ends[row] : issued[row]);
      if (single_lane && !rows.receives[row]) lane[rank] = std::max(lane[rank], ends[row]);
    }
    first = last;
  }
  return {std::move(meets), std::move(may_lead)};
}
TRACEBRAID_LOOP(meeting_times_meetings)

}  // namespace
