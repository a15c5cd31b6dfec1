// The events of a Kineto trace, from JSON text to columns, in one pass. What it takes it takes as the Python reader
// does; a chunk with anything else is given back whole, and nothing of it stays.
#include <climits>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "columns.h"
#include "json_text.h"
#include "scan.h"

namespace tracebraid {
namespace {

// As `kineto/scan.py` numbers them.
enum class Kind : uint8_t {
  kInteger,
  kAmount,
  kFloat,
  kName,
  kTextOrNumber,
  kJson,
  kBoolean,
  kThreeIntegers,
  kIntegers
};

constexpr int64_t kNull = INT64_MIN;
// Larger amounts do not fit their columns: `_AMOUNT_LIMIT` of the Python reader.
constexpr int64_t kAmountLimit = 1ll << 50;
// One below `EXACT_BELOW_US`, from which on a double does not hold the nanoseconds of microseconds.
constexpr uint64_t kExactBelowUs = (1ull << 43) - 1;
// Two below `LIMIT_US` and `DURATION_LIMIT_US`, which are compared with rounded values.
constexpr uint64_t kTimeBelowUs = 4'000'000'000'000'000ull - 2;
constexpr uint64_t kDurationBelowUs = 10'000'000'000'000ull - 2;
constexpr size_t kGuessesAtMost = 64;

struct Column {
  int table;
  Kind kind;
  Array<int64_t> integers;
  Array<double> floats;
  Array<int32_t> codes;
  Texts texts;

  void cut(size_t size) {
    integers.cut(size);
    floats.cut(size);
    codes.cut(size);
  }
  void put(int32_t row, int64_t value) {
    integers.fill(row, kNull);
    integers.add(value);
  }
  void put(int32_t row, double value) {
    floats.fill(row, NAN);
    floats.add(value);
  }
  void put_code(int32_t row, int32_t code) {
    codes.fill(row, -1);
    codes.add(code);
  }
};

struct Table {
  Array<int64_t> events;
  // Number of rows once the events are taken.
  size_t rows = 0;
};

struct Category {
  std::string text;
  // Numbers of tables: the one with a row for each event, and the one with rows for events with a value of it.
  int table = -1;
  int second = -1;
  std::vector<std::pair<std::string, int>> arguments;
  // The column of each key by the key's number.
  std::vector<int> columns;
  // Numbers of the keys of the event before, in their order.
  std::vector<int32_t> guesses;
};

struct Time {
  int64_t ns = kNull;
  bool is_given = false;
};

// What the Python reader decides for all times of one column of a chunk.
struct Precision {
  bool is_fine = false;
  bool is_wide = false;
};

class KinetoScan : public Scan {
 public:
  explicit KinetoScan(std::string_view declaration) { declare(declaration); }

  int64_t take(int what, int of, void** items) override;

 private:
  bool read(const Byte* begin, const Byte* end) override {
    end_ = end;
    ts_ = dur_ = flow_ts_ = Precision{};
    has_misfit_ = has_hazard_ = false;
    Mark mark = marked();
    try {
      scan(begin);
      for (const Precision& each : {ts_, dur_, flow_ts_}) {
        if (each.is_fine && each.is_wide) throw Unusual{};
      }
      if (has_misfit_ && has_hazard_) throw Unusual{};
    } catch (...) {  // Unusual, or without memory.
      undo(mark);
      return false;
    }
    return true;
  }

  struct Mark {
    size_t events = 0, flows = 0, extras = 0, misfits = 0, others = 0;
    int32_t names = 0, categories = 0, lanes = 0, keys = 0, values = 0, misfit_texts = 0;
    std::vector<size_t> tables;
    std::vector<int32_t> texts;
  };

  void declare(std::string_view text) {
    auto word = [&](char end) {
      size_t stop = text.find(end);
      std::string found(text.substr(0, stop));
      text.remove_prefix(stop + 1);
      return found;
    };
    while (!text.empty()) {
      std::string kind = word('\t');
      if (kind == "column") {
        int table = std::stoi(word('\t'));
        columns_.push_back(Column{table, static_cast<Kind>(std::stoi(word('\n'))), {}, {}, {}, {}});
        while (tables_.size() <= static_cast<size_t>(table)) tables_.emplace_back();
      } else if (kind == "category") {
        Category category;
        category.text = word('\t');
        category.table = std::stoi(word('\t'));
        category.second = std::stoi(word('\n'));
        declared_.push_back(std::move(category));
      } else {
        std::string key = word('\t');
        declared_.back().arguments.emplace_back(key, std::stoi(word('\n')));
      }
    }
  }

  Mark marked() const {
    Mark mark;
    mark.events = name_.size();
    mark.flows = flow_id_.size();
    mark.extras = extra_event_.size();
    mark.misfits = misfit_row_.size();
    mark.others = others_.size();
    mark.names = names_.size();
    mark.categories = categories_.size();
    mark.lanes = lanes_.size();
    mark.keys = keys_.size();
    mark.values = values_.size();
    mark.misfit_texts = misfits_.size();
    for (const Table& table : tables_) mark.tables.push_back(table.events.size());
    for (const Column& column : columns_) mark.texts.push_back(column.texts.size());
    return mark;
  }

  void undo(const Mark& mark) {
    for (auto* codes : {&name_, &category_, &lane_}) codes->cut(mark.events);
    for (auto* times : {&ts_ns_, &dur_ns_}) times->cut(mark.events);
    for (auto* codes : {&flow_category_, &flow_lane_, &flow_phase_}) codes->cut(mark.flows);
    for (auto* numbers : {&flow_id_, &flow_ts_ns_}) numbers->cut(mark.flows);
    for (auto* codes : {&extra_event_, &extra_key_, &extra_value_}) codes->cut(mark.extras);
    for (auto* codes : {&misfit_column_, &misfit_row_, &misfit_text_}) codes->cut(mark.misfits);
    others_.cut(mark.others);
    names_.cut(mark.names);
    categories_.cut(mark.categories);
    lanes_.cut(mark.lanes);
    keys_.cut(mark.keys);
    values_.cut(mark.values);
    misfits_.cut(mark.misfit_texts);
    for (size_t i = 0; i < tables_.size(); i++) tables_[i].events.cut(mark.tables[i]);
    for (size_t i = 0; i < columns_.size(); i++) {
      columns_[i].cut(tables_[columns_[i].table].events.size());
      columns_[i].texts.cut(mark.texts[i]);
    }
  }

  void scan(const Byte* p) {
    p = skip_space(p);
    if (p == end_) return;
    for (;;) {
      p = skip_space(event(p));
      if (p == end_) return;
      if (*p != ',') throw Unusual{};
      p = skip_space(p + 1);
    }
  }

  // The members of an event as they were read so far.
  struct Event {
    Byte phase = 0;
    int32_t category = -1;
    const Byte *name = nullptr, *name_end = nullptr, *pid = nullptr, *pid_end = nullptr, *tid = nullptr,
               *tid_end = nullptr, *args = nullptr;
    Time ts, dur;
    int64_t id = kNull;
    Precision ts_precision, dur_precision;
    bool has_rows = false;
    bool has_arguments = false;

    bool is_timed() const { return phase == 'X' || ((phase == 'i' || phase == 'I') && category >= 0); }
    bool is_flow() const { return phase == 's' || phase == 'f' || phase == 't'; }
  };

  // From the opening brace of an event to behind its closing one.
  const Byte* event(const Byte* p) {
    if (*p != '{') throw Unusual{};
    const Byte* begin = p;
    Event event;
    unsigned seen = 0;
    p = skip_space(p + 1);
    for (;;) {
      p = member(p, event, seen);
      p = skip_space(p);
      if (*p == '}') break;
      if (*p != ',') throw Unusual{};
      p = skip_space(p + 1);
    }
    p++;
    if (event.is_timed()) {
      add_timed(event);
    } else if (event.is_flow()) {
      add_flow(event);
    } else {
      if (event.phase == 0) throw Unusual{};
      check_rest(event);
      others_.add(begin, p - begin);
      others_.add(',');
    }
    return p;
  }

  enum Member : uint8_t { kPhase, kCategory, kName, kPid, kTid, kStart, kDuration, kId, kArgs };

  // From a member's key to behind its value.
  const Byte* member(const Byte* p, Event& event, unsigned& seen) {
    if (*p != '"') throw Unusual{};
    const Byte* key = p + 1;
    const Byte* value = nullptr;
    Member found = kArgs;
    uint32_t word = load4(key);
    switch (word) {
      case word_of("cat\""): found = kCategory; break;
      case word_of("pid\""): found = kPid; break;
      case word_of("tid\""): found = kTid; break;
      case word_of("dur\""): found = kDuration; break;
      case word_of("name"):
        if (key[4] != '"') return unknown_member(p);
        found = kName;
        break;
      case word_of("args"):
        if (key[4] != '"') return unknown_member(p);
        break;
      default:
        switch (word & 0xFFFFFFu) {
          case word_of("ph\"\0") & 0xFFFFFFu: found = kPhase; break;
          case word_of("ts\"\0") & 0xFFFFFFu: found = kStart; break;
          case word_of("id\"\0") & 0xFFFFFFu: found = kId; break;
          default: return unknown_member(p);
        }
    }
    size_t length = found == kName || found == kArgs ? 4 : found == kPhase || found == kStart || found == kId ? 2 : 3;
    if ((seen & 1u << found) != 0) throw Unusual{};
    seen |= 1u << found;
    p = skip_space(key + length + 1);
    if (*p != ':') throw Unusual{};
    value = skip_space(p + 1);
    switch (found) {
      case kPhase:
        if (*value != '"' || value[1] <= ' ' || value[1] > '~' || value[1] == '\\' || value[1] == '"' ||
            value[2] != '"')
          throw Unusual{};
        event.phase = value[1];
        return value + 3;
      case kCategory: return category(value, event);
      case kName:
        if (*value != '"') throw Unusual{};
        event.name = value;
        return event.name_end = value_end(value);
      case kPid: event.pid = value; return event.pid_end = process(value);
      case kTid: event.tid = value; return event.tid_end = process(value);
      case kStart: return time(value, event.ts, event.ts_precision, kTimeBelowUs, false);
      case kDuration: return time(value, event.dur, event.dur_precision, kDurationBelowUs, true);
      case kId:
        if (read_integer(value, event.id)) return value;
        return process(value);
      default: return args(value, event);
    }
  }

  const Byte* unknown_member(const Byte* p) {
    bool escaped = false;
    const Byte* end = string_end(p + 1, escaped) + 1;
    if (escaped) throw Unusual{};
    check_string(p, end);
    p = skip_space(end);
    if (*p != ':') throw Unusual{};
    p = skip_space(p + 1);
    end = value_end(p);
    check_text(p, end);
    return end;
  }

  const Byte* category(const Byte* p, Event& event) {
    if (*p != '"') throw Unusual{};
    bool escaped = false;
    const Byte* end = string_end(p + 1, escaped) + 1;
    if (escaped) throw Unusual{};
    event.category = categories_.number(p, end - p);
    return end;
  }

  // A process, a thread or an id: an integer, a text or null.
  static const Byte* process(const Byte* p) {
    int64_t number = 0;
    if (read_integer(p, number)) return p;
    if (*p != '"' && *p != 'n') throw Unusual{};
    const Byte* end = value_end(p);
    check_text(p, end);
    return end;
  }

  // Microseconds as nanoseconds, exactly as the Python reader rounds them.
  static const Byte* time(const Byte* p, Time& time, Precision& precision, uint64_t below_us, bool is_duration) {
    const Byte* begin = p;
    bool is_negative = *p == '-';
    p += is_negative ? 1 : 0;
    const Byte* digits = p;
    uint64_t us = 0;
    while (is_digit(*p) && p - digits < 17) us = us * 10 + (*p++ - '0');
    size_t count = p - digits;
    if (count == 0 || count > 16 || (*digits == '0' && count > 1) || us >= below_us) throw Unusual{};
    if (is_negative && is_duration) throw Unusual{};
    uint64_t ns = us * 1000;
    if (*p == '.') {
      const Byte* fraction = ++p;
      uint64_t unit = 100;
      bool is_fine = false;
      for (; is_digit(*p); p++) {
        ns += unit * (*p - '0');
        is_fine = is_fine || (unit == 0 && *p != '0');
        unit /= 10;
      }
      if (p == fraction) throw Unusual{};
      precision.is_wide = us >= kExactBelowUs;
      if (is_fine) {
        double value = 0;
        if (is_negative || precision.is_wide || !read_decimal(begin, value) || begin != p) throw Unusual{};
        double whole = std::floor(value);
        ns = static_cast<uint64_t>(whole) * 1000 + static_cast<uint64_t>(std::nearbyint((value - whole) * 1000.0));
        precision.is_fine = true;
      }
    }
    if (*p == 'e' || *p == 'E') throw Unusual{};
    time.ns = is_negative ? -static_cast<int64_t>(ns) : static_cast<int64_t>(ns);
    time.is_given = true;
    return p;
  }

  const Byte* args(const Byte* p, Event& event) {
    event.args = p;
    bool is_known = event.phase != 0 && event.category >= 0 && event.is_timed();
    if (!is_known) return value_end(p);
    event.has_arguments = true;
    return arguments(p, event);
  }

  static void note(Precision& all, const Precision& one) {
    all.is_fine = all.is_fine || one.is_fine;
    all.is_wide = all.is_wide || one.is_wide;
  }

  void add_timed(Event& event) {
    if (!event.ts.is_given || (event.phase == 'X' && !event.dur.is_given)) throw Unusual{};
    if (event.args != nullptr && !event.has_arguments) arguments(event.args, event);
    if (!event.has_rows) open_row(event);
    if (name_.size() >= INT32_MAX - 1) throw Unusual{};
    static constexpr Byte kEmpty[] = "\"\"";
    name_.add(event.name != nullptr ? names_.number(event.name, event.name_end - event.name)
                                    : names_.number(kEmpty, 2, true));
    category_.add(event.category);
    lane_.add(lane(event));
    ts_ns_.add(event.ts.ns);
    dur_ns_.add(event.dur.is_given ? event.dur.ns : 0);
    note(ts_, event.ts_precision);
    note(dur_, event.dur_precision);
  }

  static void check_rest(const Event& event) {
    if (event.args != nullptr) check_text(event.args, value_end(event.args));
    if (event.name != nullptr) check_text(event.name, event.name_end);
  }

  void add_flow(const Event& event) {
    if (event.id == kNull || !event.ts.is_given) throw Unusual{};
    check_rest(event);
    flow_id_.add(event.id);
    flow_category_.add(event.category);
    flow_phase_.add(event.phase);
    flow_lane_.add(lane(event));
    flow_ts_ns_.add(event.ts.ns);
    note(flow_ts_, event.ts_precision);
  }

  // The number of `[pid,tid]`.
  int32_t lane(const Event& event) {
    lane_text_.clear();
    lane_text_ += '[';
    append(event.pid, event.pid_end);
    lane_text_ += ',';
    append(event.tid, event.tid_end);
    lane_text_ += ']';
    return lanes_.number(reinterpret_cast<const Byte*>(lane_text_.data()), lane_text_.size(), true);
  }

  void append(const Byte* text, const Byte* end) {
    if (text == nullptr) {
      lane_text_ += "null";
    } else {
      lane_text_.append(reinterpret_cast<const char*>(text), end - text);
    }
  }

  Category& known_category(int32_t number) {
    size_t index = number + 1;
    while (used_.size() <= index) {
      Category category;
      if (!used_.empty()) {
        auto text = static_cast<int32_t>(used_.size()) - 1;
        std::string_view written(reinterpret_cast<const char*>(categories_.text(text)), categories_.length(text));
        for (const Category& each : declared_) {
          if (each.text == written) category = each;
        }
      }
      used_.push_back(std::move(category));
    }
    return used_[index];
  }

  void open_row(Event& event) {
    event.has_rows = true;
    int table = known_category(event.category).table;
    if (table >= 0) tables_[table].events.add(static_cast<int64_t>(name_.size()));
  }

  int32_t key_number(const Byte* p, const Byte* end) { return keys_.number(p, end - p); }

  int column_of(Category& category, int32_t key) {
    while (category.columns.size() <= static_cast<size_t>(key)) {
      auto number = static_cast<int32_t>(category.columns.size());
      std::string_view text(reinterpret_cast<const char*>(keys_.text(number)), keys_.length(number));
      int column = -1;
      for (const auto& argument : category.arguments) {
        if (argument.first == text) column = argument.second;
      }
      category.columns.push_back(column);
    }
    return category.columns[key];
  }

  // From the opening brace of an event's arguments to behind the closing one.
  const Byte* arguments(const Byte* p, Event& event) {
    if (*p != '{') throw Unusual{};
    open_row(event);
    Category& category = known_category(event.category);
    int32_t second_row = -1;
    serial_++;
    p = skip_space(p + 1);
    if (*p == '}') return p + 1;
    for (size_t i = 0;; i++) {
      if (*p != '"') throw Unusual{};
      int32_t key = -1;
      p = argument_key(p, category, i, key);
      while (seen_.size() <= static_cast<size_t>(key)) seen_.add(0);
      if (seen_[key] == serial_) throw Unusual{};
      seen_[key] = serial_;
      p = skip_space(p);
      if (*p != ':') throw Unusual{};
      p = skip_space(p + 1);
      int column = column_of(category, key);
      p = column >= 0 ? put(p, column, category, second_row) : put_extra(p, key);
      p = skip_space(p);
      if (*p == '}') return p + 1;
      if (*p != ',') throw Unusual{};
      p = skip_space(p + 1);
    }
  }

  const Byte* argument_key(const Byte* p, Category& category, size_t i, int32_t& key) {
    bool is_guessed = i < category.guesses.size();
    if (is_guessed) {
      key = category.guesses[i];
      size_t length = keys_.length(key);
      if (static_cast<size_t>(end_ - p) > length && memcmp(p, keys_.text(key), length) == 0) return p + length;
    }
    bool escaped = false;
    const Byte* end = string_end(p + 1, escaped) + 1;
    if (escaped) throw Unusual{};
    key = key_number(p, end);
    if (is_guessed) {
      category.guesses[i] = key;
    } else if (i == category.guesses.size() && i < kGuessesAtMost) {
      category.guesses.push_back(key);
    }
    return end;
  }

  int32_t row_of(const Column& column, const Category& category, int32_t& second_row) {
    if (column.table != category.second) return static_cast<int32_t>(tables_[column.table].events.size()) - 1;
    if (second_row < 0) {
      Table& table = tables_[category.second];
      second_row = static_cast<int32_t>(table.events.size());
      table.events.add(static_cast<int64_t>(name_.size()));
    }
    return second_row;
  }

  const Byte* put(const Byte* p, int number, const Category& category, int32_t& second_row) {
    Column& column = columns_[number];
    if (load4(p) == word_of("null")) return p + 4;
    const Byte* value = p;
    int64_t integer = 0;
    double decimal = 0;
    switch (column.kind) {
      case Kind::kInteger:
        if (!read_integer(p, integer)) break;
        column.put(row_of(column, category, second_row), integer);
        return p;
      case Kind::kAmount:
        if (!read_integer(p, integer)) break;
        if (integer > kAmountLimit || integer < -kAmountLimit) break;
        column.put(row_of(column, category, second_row), integer);
        return p;
      case Kind::kFloat:
        if (!read_decimal(p, decimal)) break;
        column.put(row_of(column, category, second_row), decimal);
        return p;
      default: return put_text(p, column, category, second_row);
    }
    const Byte* end = value_end(value);
    has_misfit_ = true;
    misfit_text_.add(misfits_.number(value, end - value));
    misfit_column_.add(number);
    misfit_row_.add(row_of(column, category, second_row));
    return end;
  }

  const Byte* put_text(const Byte* p, Column& column, const Category& category, int32_t& second_row) {
    const Byte* end = value_end(p);
    if (column.kind != Kind::kJson) note_text(p, end, column.kind);
    int32_t code = column.texts.number(p, end - p);
    column.put_code(row_of(column, category, second_row), code);
    return end;
  }

  // Throws where a text does not fit its column; notes texts that the Python reader takes for what they spell where
  // some other value of the chunk does not fit.
  void note_text(const Byte* p, const Byte* end, Kind kind) {
    bool is_string = *p == '"';
    if (kind == Kind::kBoolean) {
      if (*p != 't' && *p != 'f') throw Unusual{};
    } else if (kind == Kind::kTextOrNumber) {
      int64_t number = 0;
      if (!is_string && !read_integer(p, number)) throw Unusual{};
      has_hazard_ = has_hazard_ || is_string;
    } else if (is_string && kind != Kind::kThreeIntegers) {
      bool is_null = end - p == 6 && (p[1] | 0x20) == 'n' && (p[4] | 0x20) == 'l';
      has_hazard_ = has_hazard_ || is_null || memchr(p, '\\', end - p) != nullptr;
    } else {
      int count = kind == Kind::kName ? 0 : count_integers(p);
      if (count == 0 || (kind == Kind::kThreeIntegers && count != 3)) throw Unusual{};
    }
  }

  // How many integers a list has; 0 where it is no list of integers, or empty.
  static int count_integers(const Byte* p) {
    if (*p != '[') return 0;
    for (int count = 1;; count++) {
      int64_t number = 0;
      p = skip_space(p + 1);
      if (!read_integer(p, number)) return 0;
      p = skip_space(p);
      if (*p == ']') return count;
      if (*p != ',') return 0;
    }
  }

  const Byte* put_extra(const Byte* p, int32_t key) {
    const Byte* end = value_end(p);
    extra_value_.add(values_.number(p, end - p));
    extra_event_.add(static_cast<int32_t>(name_.size()));
    extra_key_.add(key);
    return end;
  }

  const Byte* end_ = nullptr;
  Precision ts_, dur_, flow_ts_;
  // Whether a value of the chunk does not fit its column, and whether a text means something else beside such a one.
  bool has_misfit_ = false, has_hazard_ = false;

  std::vector<Category> declared_, used_;
  std::vector<Table> tables_;
  std::vector<Column> columns_;
  Texts names_, categories_, lanes_, keys_, values_, misfits_;
  Array<int32_t> name_, category_, lane_;
  Array<int64_t> ts_ns_, dur_ns_;
  Array<int64_t> flow_id_, flow_ts_ns_;
  Array<int32_t> flow_category_, flow_lane_, flow_phase_;
  Array<int32_t> extra_event_, extra_key_, extra_value_;
  Array<int32_t> misfit_column_, misfit_row_, misfit_text_;
  Array<Byte> others_;
  // The serial number of the last event that had each key.
  Array<uint64_t> seen_;
  uint64_t serial_ = 0;
  std::string lane_text_;
};

// The arrays of a scan, as `kineto/scan.py` names them.
enum What : uint8_t {
  kNames,
  kCategories,
  kLanes,
  kTs,
  kDur,
  kFlowIds,
  kFlowTs,
  kFlowCategories,
  kFlowLanes,
  kFlowPhases,
  kExtraEvents,
  kExtraKeys,
  kExtraValues,
  kMisfitColumns,
  kMisfitRows,
  kMisfitTexts,
  kOthers,
  kNameTexts,
  kCategoryTexts,
  kLaneTexts,
  kKeyTexts,
  kValueTexts,
  kMisfitValueTexts,
  kTableEvents,
  kColumnIntegers,
  kColumnFloats,
  kColumnCodes,
  kColumnTexts
};

int64_t KinetoScan::take(int what, int of, void** items) {
  // The events of a table are taken before its columns.
  auto rows = [&] { return tables_[columns_[of].table].rows; };
  size_t known = what < kTableEvents ? 1 : what == kTableEvents ? tables_.size() : columns_.size();
  if (of < 0 || static_cast<size_t>(of) >= known) {
    *items = nullptr;
    return 0;
  }
  switch (what) {
    case kNames: return given(name_, items);
    case kCategories: return given(category_, items);
    case kLanes: return given(lane_, items);
    case kTs: return given(ts_ns_, items);
    case kDur: return given(dur_ns_, items);
    case kFlowIds: return given(flow_id_, items);
    case kFlowTs: return given(flow_ts_ns_, items);
    case kFlowCategories: return given(flow_category_, items);
    case kFlowLanes: return given(flow_lane_, items);
    case kFlowPhases: return given(flow_phase_, items);
    case kExtraEvents: return given(extra_event_, items);
    case kExtraKeys: return given(extra_key_, items);
    case kExtraValues: return given(extra_value_, items);
    case kMisfitColumns: return given(misfit_column_, items);
    case kMisfitRows: return given(misfit_row_, items);
    case kMisfitTexts: return given(misfit_text_, items);
    case kOthers: return given(others_, items);
    case kNameTexts: return given(names_.bytes(), items);
    case kCategoryTexts: return given(categories_.bytes(), items);
    case kLaneTexts: return given(lanes_.bytes(), items);
    case kKeyTexts: return given(keys_.bytes(), items);
    case kValueTexts: return given(values_.bytes(), items);
    case kMisfitValueTexts: return given(misfits_.bytes(), items);
    case kTableEvents: tables_[of].rows = tables_[of].events.size(); return given(tables_[of].events, items);
    case kColumnIntegers:
      if (columns_[of].integers.size() != 0) columns_[of].integers.fill(rows(), kNull);
      return given(columns_[of].integers, items);
    case kColumnFloats:
      if (columns_[of].floats.size() != 0) columns_[of].floats.fill(rows(), NAN);
      return given(columns_[of].floats, items);
    case kColumnCodes:
      if (columns_[of].codes.size() != 0) columns_[of].codes.fill(rows(), -1);
      return given(columns_[of].codes, items);
    case kColumnTexts: return given(columns_[of].texts.bytes(), items);
    default: *items = nullptr; return 0;
  }
}

}  // namespace

std::unique_ptr<Scan> kineto_scan(std::string_view declaration) { return std::make_unique<KinetoScan>(declaration); }

}  // namespace tracebraid
