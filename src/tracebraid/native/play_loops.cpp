// Loops of `chakra.running`: discrete events over all ranks, and the rounds of messages of collectives.
#include <algorithm>
#include <queue>
#include <vector>

#include "loops.h"

namespace {

using tracebraid::Array;
using tracebraid::Flags;
using tracebraid::Ints;
using tracebraid::Items;

constexpr int64_t kNever = -1;

// --- meetings ---

Array<int64_t> meetings_unreached(Ints first, Ints after, Ints waits) {
  Array<int64_t> left;
  left.add(waits.begin(), static_cast<size_t>(waits.size()));
  std::vector<int64_t> stack;
  for (int64_t row = 0; row < waits.size(); row++) {
    if (left[row] == 0) stack.push_back(row);
  }
  while (!stack.empty()) {
    const int64_t row = stack.back();
    stack.pop_back();
    for (int64_t index = first[row]; index < first[row + 1]; index++) {
      if (--left[after[index]] == 0) stack.push_back(after[index]);
    }
  }
  return left;
}
TRACEBRAID_LOOP(meetings_unreached)

// --- algorithms ---

enum StepKind : uint8_t { kExchange, kDirect, kDirectTwice };

struct Rounds {
  Ints members, chunks, endpoint_ns, first, kind, times, handling_ns, last_ns, cell, partner, message_ns;

  static Rounds from(tracebraid::Reader& reader) {
    const auto ints = [&] { return reader.take<Ints>(); };
    return {ints(), ints(), ints(), ints(), ints(), ints(), ints(), ints(), ints(), ints(), ints()};
  }
};

class Collective {
 public:
  Collective(const Rounds& rounds, int64_t number) : rounds_(rounds), number_(number) {}

  // Turns the time at which each member starts into that at which it ends.
  void run(std::vector<int64_t>& at) {
    before_ = at;
    for (int64_t chunk = 0; chunk < rounds_.chunks[number_]; chunk++) {
      for (int64_t& time : at) time += rounds_.endpoint_ns[number_];
      for (int64_t step = rounds_.first[number_]; step < rounds_.first[number_ + 1]; step++) {
        switch (rounds_.kind[step]) {
          case kExchange: exchange(step, at); break;
          case kDirect: direct(step, at); break;
          default: direct_twice(step, at);
        }
      }
    }
  }

 private:
  void exchange(int64_t step, std::vector<int64_t>& at) {
    const auto count = static_cast<int64_t>(at.size());
    const int64_t cell = rounds_.cell[step], times = rounds_.times[step], handling = rounds_.handling_ns[step];
    const auto message = [&](int64_t member) { return rounds_.message_ns[cell + member]; };
    bool is_even = true;
    for (int64_t member = 1; member < count; member++) {
      is_even = is_even && at[member] == at[0] && message(member) == message(0);
    }
    if (is_even) {
      for (int64_t& time : at) time += times * (message(0) + handling);
      return;
    }
    for (int64_t round = 0; round < times; round++) {
      before_ = at;
      for (int64_t member = 0; member < count; member++) {
        const int64_t come = before_[rounds_.partner[cell + member]] + message(member);
        at[member] = std::max(come, before_[member]) + handling;
      }
    }
  }

  void direct(int64_t step, std::vector<int64_t>& at) {
    const auto count = static_cast<int64_t>(at.size());
    before_ = at;
    for (int64_t member = 0; member < count; member++) {
      int64_t latest = before_[member];
      for (int64_t row = 0; row < count - 1; row++) {
        const int64_t entry = rounds_.cell[step] + row * count + member;
        latest = std::max(latest, before_[rounds_.partner[entry]] + rounds_.message_ns[entry]);
      }
      at[member] = latest + rounds_.handling_ns[step];
    }
  }

  // Results go back to those at distances 1, 2, ...: a message for each that was handled. The first goes when the last
  // message has come, the others as messages are handled, in the order of their arrival.
  void direct_twice(int64_t step, std::vector<int64_t>& at) {
    const auto count = static_cast<int64_t>(at.size());
    const int64_t cell = rounds_.cell[step];
    std::vector<int64_t> sent((count - 1) * count), come(count - 1);
    for (int64_t member = 0; member < count; member++) {
      for (int64_t row = 0; row < count - 1; row++) {
        const int64_t entry = cell + row * count + member;
        come[row] = at[rounds_.partner[entry]] + rounds_.message_ns[entry];
      }
      std::sort(come.begin(), come.end());
      const int64_t latest = std::max(come.back(), at[member]);
      for (int64_t& time : come) time += rounds_.handling_ns[step];
      int64_t first = come.back();
      for (const int64_t handled : come) {
        if (handled >= latest) first = std::min(first, handled);
      }
      for (int64_t row = 0; row < count - 1; row++) sent[row * count + member] = std::max(come[row], first);
    }
    for (int64_t member = 0; member < count; member++) {
      int64_t latest = 0;
      for (int64_t row = 0; row < count - 1; row++) {
        const int64_t entry = cell + row * count + member;
        latest = std::max(latest, sent[row * count + rounds_.partner[entry]] + rounds_.message_ns[entry]);
      }
      at[member] = latest + rounds_.last_ns[step];
    }
  }

  const Rounds& rounds_;
  int64_t number_;
  std::vector<int64_t> before_;
};

Array<int64_t> algorithms_member_ends(Rounds rounds, int64_t number, Ints start_ns) {
  std::vector<int64_t> at(start_ns.begin(), start_ns.end());
  Collective(rounds, number).run(at);
  Array<int64_t> ends;
  ends.add(at.data(), at.size());
  return ends;
}
TRACEBRAID_LOOP(algorithms_member_ends)

// --- play ---

enum Role : int8_t { kWork, kCollective, kSend, kReceive };

struct Program {
  Items<const int8_t> role;
  Ints lane, duration_ns, delivery_ns, waits, first, after, slot, counter, expected, signature, position, plan;
  Flags rendezvous;
  Rounds rounds;

  static Program from(tracebraid::Reader& reader) {
    const auto ints = [&] { return reader.take<Ints>(); };
    return {reader.take<Items<const int8_t>>(),
            ints(),
            ints(),
            ints(),
            ints(),
            ints(),
            ints(),
            ints(),
            ints(),
            ints(),
            ints(),
            ints(),
            ints(),
            reader.take<Flags>(),
            Rounds::from(reader)};
  }
};

struct Event {
  int64_t time_ns, order, row;
  bool operator>(const Event& other) const {
    return time_ns != other.time_ns ? time_ns > other.time_ns : order > other.order;
  }
};

template <typename Item>
using LowestFirst = std::priority_queue<Item, std::vector<Item>, std::greater<>>;

// Nodes that wait for nothing but their lane, and lanes that changed since nodes were last issued.
class Ready {
 public:
  explicit Ready(int64_t lanes) : waiting_(lanes), is_busy_(lanes), is_touched_(lanes) {}

  void add(int64_t lane, int64_t row) {
    if (lane < 0) {
      free_.push_back(row);
      return;
    }
    waiting_[lane].push(row);
    touch(lane);
  }
  void free(int64_t lane) {
    if (lane < 0) return;
    is_busy_[lane] = false;
    touch(lane);
  }
  // The nodes that are issued now, in their order: those without a lane, then the lowest of each free lane.
  std::vector<int64_t> taken() {
    std::vector<int64_t> found;
    found.swap(free_);
    std::vector<std::pair<int64_t, int64_t>> lowest;
    for (const int64_t lane : touched_) {
      is_touched_[lane] = false;
      if (!is_busy_[lane] && !waiting_[lane].empty()) lowest.emplace_back(waiting_[lane].top(), lane);
    }
    touched_.clear();
    std::sort(lowest.begin(), lowest.end());
    for (const auto& [row, lane] : lowest) {
      is_busy_[lane] = true;
      waiting_[lane].pop();
      found.push_back(row);
    }
    return found;
  }

 private:
  void touch(int64_t lane) {
    if (is_touched_[lane]) return;
    is_touched_[lane] = true;
    touched_.push_back(lane);
  }

  std::vector<LowestFirst<int64_t>> waiting_;
  std::vector<bool> is_busy_, is_touched_;
  std::vector<int64_t> touched_, free_;
};

// `Played` of `play.py`, in its order.
struct Played {
  Array<int64_t> start_ns, end_ns, cause, slot, come, last, receive, latest_ns, differs;

  Played(int64_t nodes, int64_t slots) {
    for (auto* each : {&start_ns, &end_ns, &cause, &slot}) each->fill(nodes, kNever);
    come.fill(slots, 0);
    for (auto* each : {&last, &receive, &latest_ns, &differs}) each->fill(slots, kNever);
  }
};

class Play {
 public:
  Play(const Program& program, int64_t lanes, int64_t counters, int64_t slots)
      : program_(program),
        played_(program.role.size(), slots),
        ready_(lanes),
        head_(slots, kNever),
        following_(program.role.size(), kNever),
        taken_(counters) {}

  Played& run() {
    std::vector<int64_t> waits(program_.waits.begin(), program_.waits.end());
    for (int64_t row = 0; row < program_.role.size(); row++) {
      if (waits[row] == 0) ready_.add(program_.lane[row], row);
    }
    int64_t now = 0, ended = kNever;
    while (true) {
      for (const int64_t row : ready_.taken()) {
        played_.start_ns[row] = now;
        played_.cause[row] = ended;
        issue(row);
      }
      if (events_.empty()) return played_;
      now = events_.top().time_ns;
      ended = events_.top().row;
      events_.pop();
      played_.end_ns[ended] = now;
      ready_.free(program_.lane[ended]);
      for (int64_t index = program_.first[ended]; index < program_.first[ended + 1]; index++) {
        const int64_t after = program_.after[index];
        if (--waits[after] == 0) ready_.add(program_.lane[after], after);
      }
    }
  }

 private:
  void push(int64_t time_ns, int64_t row) { events_.push({time_ns, pushed_++, row}); }

  void issue(int64_t row) {
    const int8_t role = program_.role[row];
    if (role == kWork) {
      push(played_.start_ns[row] + program_.duration_ns[row], row);
      return;
    }
    played_.slot[row] = program_.slot[row] + taken_[program_.counter[row]]++;
    if (role == kCollective) {
      meet_group(row);
    } else {
      meet_pair(row);
    }
  }

  // The message of a send is under way: it is known when both ends end, if the receive has come.
  void start_message(int64_t slot, int64_t now) {
    const int64_t send = played_.last[slot], receive = played_.receive[slot];
    push(now + program_.duration_ns[send], send);
    played_.latest_ns[slot] = now + program_.delivery_ns[send];
    if (receive >= 0) push(played_.latest_ns[slot] + program_.duration_ns[receive], receive);
  }

  void meet_pair(int64_t row) {
    const int64_t slot = played_.slot[row], now = played_.start_ns[row];
    played_.come[slot]++;
    if (program_.role[row] == kSend) {
      played_.last[slot] = row;
      if (!program_.rendezvous[row] || played_.receive[slot] >= 0) start_message(slot, now);
      return;
    }
    played_.receive[slot] = row;
    const int64_t send = played_.last[slot];
    if (send >= 0 && program_.rendezvous[send]) {
      start_message(slot, now);
    } else if (send >= 0) {
      push(std::max(now, played_.latest_ns[slot]) + program_.duration_ns[row], row);
    }
  }

  // A collective comes to its slot; with the last member it is known when each ends.
  void meet_group(int64_t row) {
    const int64_t slot = played_.slot[row], first = head_[slot];
    int64_t& differs = played_.differs[slot];
    if (first >= 0 && differs < 0 && program_.signature[first] != program_.signature[row]) differs = row;
    following_[row] = first;
    head_[slot] = row;
    played_.come[slot]++;
    played_.last[slot] = row;
    played_.latest_ns[slot] = played_.start_ns[row];
    if (played_.come[slot] == program_.expected[row] && differs < 0) start_group(row);
  }

  void start_group(int64_t row) {
    const int64_t now = played_.start_ns[row];
    std::vector<int64_t> at(program_.expected[row]);
    bool is_even = true;
    for (int64_t member = row; member >= 0; member = following_[member]) {
      at[program_.position[member]] = played_.start_ns[member];
      is_even = is_even && played_.start_ns[member] == now;
    }
    const bool together = is_even || program_.plan[row] < 0;
    if (!together) Collective(program_.rounds, program_.plan[row]).run(at);
    for (int64_t member = row; member >= 0; member = following_[member]) {
      push(together ? now + program_.duration_ns[member] : at[program_.position[member]], member);
    }
  }

  const Program& program_;
  Played played_;
  Ready ready_;
  LowestFirst<Event> events_;
  int64_t pushed_ = 0;
  std::vector<int64_t> head_, following_, taken_;
};

using Column = Array<int64_t>;

std::tuple<Column, Column, Column, Column, Column, Column, Column, Column, Column> play_played(Program program,
                                                                                               int64_t lanes,
                                                                                               int64_t counters,
                                                                                               int64_t slots) {
  Play play(program, lanes, counters, slots);
  Played& played = play.run();
  return {std::move(played.start_ns), std::move(played.end_ns),    std::move(played.cause),
          std::move(played.slot),     std::move(played.come),      std::move(played.last),
          std::move(played.receive),  std::move(played.latest_ns), std::move(played.differs)};
}
TRACEBRAID_LOOP(play_played)

}  // namespace
