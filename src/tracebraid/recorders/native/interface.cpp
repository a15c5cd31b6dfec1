// The C interface that Python calls through ctypes. No function throws: those that can fail return 0 or null, and
// `tracebraid_error` gives the message.
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <exception>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "callbacks.h"
#include "columns.h"
#include "json.h"
#include "recorder.h"
#include "slots.h"

namespace {

using namespace tracebraid;

thread_local std::string last_error;

struct Recording {
  std::shared_ptr<Recorder> recorder;
  int slot;
  Header header;
};

int64_t steady_ms() {
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

std::string wall_time() {
  std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  return text;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

// The nodes of a recording, and its sizes in bytes.
struct TracebraidCounts {
  uint64_t nodes, open, raised, recorded_bytes, spilled_bytes, peak_bytes, lost_bytes;
};

const char* tracebraid_error() { return last_error.c_str(); }

// Opens a recording, disabled at first. Null where all slots are in use. `saved_ops`: names with a comma between them.
void* tracebraid_open(const char* spill_path, uint64_t memory_bytes, int integral_ranges, const char* saved_ops,
                      const char* saved_prefix) {
  try {
    Options options{spill_path, memory_bytes, integral_ranges != 0, {}, saved_prefix};
    std::istringstream names(saved_ops);
    for (std::string name; std::getline(names, name, ',');) options.saved_ops.insert(name);
    auto recorder = std::make_shared<Recorder>(std::move(options));
    int slot = attach(recorder);
    if (slot < 0) {
      last_error = std::to_string(kSlots) + " recordings are open in this process, and there can be no more";
      return nullptr;
    }
    return new Recording{std::move(recorder), slot, Header{getpid(), wall_time(), steady_ms(), 0}};
  } catch (const std::exception& error) {
    last_error = error.what();
    return nullptr;
  }
}

void tracebraid_switch(void* recording, int on) { set_enabled(static_cast<Recording*>(recording)->slot, on != 0); }

// Ends a recording, writes it to the path (if not null) as JSON or as columns, and frees it. 0 where it cannot be
// written.
int tracebraid_close(void* handle, const char* path, int as_columns, TracebraidCounts* counts) {
  std::unique_ptr<Recording> recording(static_cast<Recording*>(handle));
  try {
    detach(recording->slot);
    Recorder& recorder = *recording->recorder;
    recorder.retire_all();
    Written written;
    recording->header.finish_ts = steady_ms();
    auto write = as_columns ? &write_columns : &write_json;
    if (path != nullptr) written = write(recorder, recording->header, path);
    QueueCounts queue = recorder.chunks().counts();
    *counts = {written.nodes,       written.open,     written.raised,  queue.recorded_bytes,
               queue.spilled_bytes, queue.peak_bytes, queue.lost_bytes};
    return 1;
  } catch (const std::exception& error) {
    last_error = error.what();
    return 0;
  }
}

}  // extern "C"
#pragma GCC visibility pop
