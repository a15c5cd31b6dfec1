// Gives the scanner mutants of the events of a trace: `fuzz_scan DECLARATION TRACE SEED MUTANTS`. Built with
// sanitizers.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "kineto_scan.cpp"

namespace {

constexpr size_t kReadAtMost = 200'000;
constexpr char kBits[] = "\"\\{}[],:0123456789.eE-+ \n\t\0utfnl";

std::string content(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string mutant(const std::string& events, std::mt19937_64& numbers) {
  auto below = [&](size_t limit) { return static_cast<size_t>(numbers() % limit); };
  size_t phase = events.find("\"ph\"", below(events.size()));
  size_t begin = events.rfind('{', phase == std::string::npos ? events.find("\"ph\"") : phase);
  std::string text = events.substr(begin, 1 + below(6000));
  // Most end with a whole event.
  size_t end = text.rfind("},");
  if (below(8) != 0 && end != std::string::npos) text.resize(end + 1);
  for (size_t changes = below(4); changes > 0; changes--) {
    size_t at = below(text.size());
    switch (below(5)) {
      case 0: text[at] = static_cast<char>(numbers()); break;
      case 1: text[at] = kBits[below(sizeof kBits - 1)]; break;
      case 2: text.erase(at, 1 + below(8)); break;
      case 3: text.insert(at, 1, kBits[below(sizeof kBits - 1)]); break;
      default: text.resize(at); break;
    }
    if (text.empty()) text = "{";
  }
  return text;
}

// Takes all arrays, and adds up their bytes.
uint64_t taken(void* scan, int tables, int columns) {
  uint64_t sum = 0;
  auto take = [&](int what, int of) {
    void* items = nullptr;
    int64_t size = tracebraid_kineto_take(scan, what, of, &items);
    if (size < 0 || (size > 0 && items == nullptr)) abort();
    for (int64_t i = 0; i < size; i++) sum += static_cast<const unsigned char*>(items)[i];
    tracebraid_release(items);
    return size;
  };
  int64_t events = take(tracebraid::kNames, 0) / 4;
  if (take(tracebraid::kTs, 0) / 8 != events || take(tracebraid::kLanes, 0) / 4 != events) abort();
  for (int what = 0; what < tracebraid::kTableEvents; what++) take(what, 0);
  for (int of = 0; of < tables; of++) take(tracebraid::kTableEvents, of);
  for (int of = 0; of < columns; of++) {
    for (int what = tracebraid::kColumnIntegers; what <= tracebraid::kColumnTexts; what++) take(what, of);
  }
  return sum;
}

}  // namespace

int main(int count, char** words) {
  if (count != 5) return 2;
  std::string declaration = content(words[1]), trace = content(words[2]);
  size_t array = trace.find("\"traceEvents\"");
  if (array == std::string::npos) return 2;
  std::string events = trace.substr(trace.find('[', array) + 1, kReadAtMost);
  std::mt19937_64 numbers(std::strtoull(words[3], nullptr, 10));
  int64_t mutants = std::strtoll(words[4], nullptr, 10);
  int tables = 0, columns = 0;
  for (size_t at = 0; (at = declaration.find("column\t", at)) != std::string::npos; at++) {
    columns++;
    tables = std::max(tables, std::atoi(declaration.c_str() + at + 7) + 1);
  }
  int64_t whole = 0;
  uint64_t sum = 0;
  for (int64_t i = 0; i < mutants;) {
    void* scan = tracebraid_kineto_new(declaration.c_str());
    bool is_taken = true;
    for (int chunk = 0; chunk < 4 && is_taken; chunk++, i++) {
      std::string text = mutant(events, numbers);
      is_taken = tracebraid_kineto_add(scan, text.data(), static_cast<int64_t>(text.size())) == 1;
      whole += is_taken ? 1 : 0;
    }
    sum += taken(scan, tables, columns);
    tracebraid_kineto_free(scan);
  }
  printf("%lld of %lld mutants were taken, bytes add up to %llu\n", static_cast<long long>(whole),
         static_cast<long long>(mutants), static_cast<unsigned long long>(sum));
  return 0;
}
