// Gives a scanner mutants of the objects of a trace: `fuzz_scan ARRAY KEY DECLARATION TRACE SEED MUTANTS`, with the
// file's array, the first key of its objects, and the declaration for events. Built with sanitizers.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

extern "C" {
void* tracebraid_scan_events(const char* declaration);
void* tracebraid_scan_nodes();
void tracebraid_scan_free(void* scan);
int tracebraid_scan_add(void* scan, const void* data, int64_t size);
int64_t tracebraid_scan_take(void* scan, int what, int of, void** items);
void tracebraid_release(void* items);
}

namespace {

constexpr size_t kReadAtMost = 200'000;
// Arrays of a scan, at least.
constexpr int kArrays = 40;
constexpr char kBits[] = "\"\\{}[],:0123456789.eE-+ \n\t\0utfnl";

std::string content(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string mutant(const std::string& objects, const std::string& key, std::mt19937_64& numbers) {
  auto below = [&](size_t limit) { return static_cast<size_t>(numbers() % limit); };
  size_t first = objects.find(key, below(objects.size()));
  size_t begin = objects.rfind('{', first == std::string::npos ? objects.find(key) : first);
  std::string text = objects.substr(begin, 1 + below(6000));
  // Most end with a whole object.
  size_t last = text.rfind(key), end = last == std::string::npos ? last : text.rfind('}', last);
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

// Takes all arrays of all columns and tables, and adds up their bytes.
uint64_t taken(void* scan, int columns) {
  uint64_t sum = 0;
  for (int what = 0; what < kArrays; what++) {
    for (int of = 0; of < columns; of++) {
      void* items = nullptr;
      int64_t size = tracebraid_scan_take(scan, what, of, &items);
      if (size < 0 || (size > 0 && items == nullptr)) abort();
      for (int64_t i = 0; i < size; i++) sum += static_cast<const unsigned char*>(items)[i];
      tracebraid_release(items);
    }
  }
  return sum;
}

}  // namespace

int main(int count, char** words) {
  if (count != 7) return 2;
  std::string array = '"' + std::string(words[1]) + '"', key = '"' + std::string(words[2]) + '"';
  std::string declaration = content(words[3]), trace = content(words[4]);
  size_t found = trace.find(array);
  if (found == std::string::npos) return 2;
  std::string objects = trace.substr(trace.find('[', found) + 1, kReadAtMost);
  std::mt19937_64 numbers(std::strtoull(words[5], nullptr, 10));
  int64_t mutants = std::strtoll(words[6], nullptr, 10);
  int columns = 0;
  for (size_t at = 0; (at = declaration.find("column\t", at)) != std::string::npos; at++) columns++;
  int64_t whole = 0;
  uint64_t sum = 0;
  for (int64_t i = 0; i < mutants;) {
    void* scan = array == "\"nodes\"" ? tracebraid_scan_nodes() : tracebraid_scan_events(declaration.c_str());
    bool is_taken = true;
    for (int chunk = 0; chunk < 4 && is_taken; chunk++, i++) {
      std::string text = mutant(objects, key, numbers);
      is_taken = tracebraid_scan_add(scan, text.data(), static_cast<int64_t>(text.size())) == 1;
      whole += is_taken ? 1 : 0;
    }
    sum += taken(scan, std::max(columns, 1));
    tracebraid_scan_free(scan);
  }
  printf("%lld of %lld mutants were taken, bytes add up to %llu\n", static_cast<long long>(whole),
         static_cast<long long>(mutants), static_cast<unsigned long long>(sum));
  return 0;
}
