#include "recorder.h"

#include <algorithm>
#include <cstring>

#include "attributes.h"
#include "format.h"

namespace tracebraid {

Recorder::Recorder(Options options)
    : options_(std::move(options)), store_(options_.spill_path, options_.memory_bytes) {}

void Recorder::enter(const at::RecordFunction& function, ThreadLog*& mine) {
  if (mine == nullptr) mine = &log_of_this_thread();
  ThreadLog& log = *mine;
  if (log.root == 0) {
    log.root = thread_node(function.handle());
    log.innermost.store(log.root, std::memory_order_relaxed);
  }
  if (log.has_ended_elsewhere.load(std::memory_order_acquire)) forget_ended_elsewhere(log);

  Scratch& scratch = *log.scratch;
  Bytes& out = scratch.bytes;
  auto [number, is_operator] = scratch.names.of(function);
  uint64_t rf_id = function.handle();

  out.clear();
  out.reserve(3 + 8 * Bytes::kNumber);
  out.byte(kEnter);
  size_t flags_at = out.size();
  uint8_t flags = number == 0 ? kNameInline : 0;
  out.byte(flags);
  out.byte(static_cast<uint8_t>(function.scope()));
  out.number(rf_id);
  out.number(log.innermost.load(std::memory_order_relaxed));
  out.number(forward_parent(function, log));
  out.number(number);
  if (number == 0) out.text(function.name());
  out.reserve(3 * Bytes::kNumber);
  out.signed_number(function.seqNr());
  out.number(function.forwardThreadId());

  write_values(out, function.inputs(), function.num_inputs(), scratch.seen);
  if (options_.integral_ranges) {
    std::string ranges = integral_ranges(function.inputs());
    if (!ranges.empty()) {
      flags |= kRanges;
      out.text(ranges);
    }
  }
  // To ask for keyword inputs costs a map, and neither operators nor nodes of autograd have any.
  if (!is_operator && function.seqNr() < 0 && write_kernel(out, function)) flags |= kKernel;
  out.set(flags_at, flags);
  append(log);

  // What ends whenever another thread is done with it contains nothing of this thread.
  if (!function.isAsync()) {
    log.open.push_back(rf_id);
    log.innermost.store(function_node(rf_id), std::memory_order_relaxed);
  }
}

void Recorder::exit(const at::RecordFunction& function, ThreadLog*& mine) {
  if (mine == nullptr) mine = &log_of_this_thread();
  ThreadLog& log = *mine;
  bool is_known = forget(log, function.handle());
  if (!is_known && !function.isAsync()) tell_others(function.handle());

  Bytes& out = log.scratch->bytes;
  Values outputs(function.outputs().data(), function.outputs().size());
  size_t count = function.num_outputs();
  uint8_t flags = outputs.size() < count ? kRaised : 0;
  out.clear();
  out.reserve(2 + 2 * Bytes::kNumber);
  out.byte(kExit);
  size_t flags_at = out.size();
  out.byte(flags);
  out.number(function.handle());
  write_values(out, outputs, count, log.scratch->seen);
  if (function.isNcclMeta() && write_comms(out, function)) flags |= kComms;
  out.set(flags_at, flags);
  append(log);
}

void Recorder::write_values(Bytes& out, Values values, size_t count, SeenLately& seen) {
  // On a stack the function's own are the last ones.
  if (values.size() < count) count = 0;
  out.reserve(Bytes::kNumber);
  out.number(count);
  for (const c10::IValue& value : values.slice(values.size() - count)) {
    write_value(out, value, identities_, seen);
  }
}

void Recorder::append(ThreadLog& log) {
  const Bytes& record = log.scratch->bytes;
  uint32_t size = static_cast<uint32_t>(record.size());
  if (log.chunk == nullptr || log.chunk->capacity - log.chunk->used < sizeof size + size) {
    if (log.chunk != nullptr) store_.hand_in(std::move(log.chunk));
    log.chunk = store_.take(log.number, sizeof size + size);
  }
  Chunk& chunk = *log.chunk;
  std::memcpy(chunk.data.get() + chunk.used, &size, sizeof size);
  std::memcpy(chunk.data.get() + chunk.used + sizeof size, record.data(), size);
  chunk.used += sizeof size + size;
  // Where the next record goes: or else PyTorch's next atomic instruction waits until that is in the cache.
  for (int line = 1; line <= 3; line++) __builtin_prefetch(chunk.data.get() + chunk.used + 64 * line, 1);
}

uint64_t Recorder::forward_parent(const at::RecordFunction& function, ThreadLog& log) {
  uint64_t tid = function.forwardThreadId();
  if (tid == 0) return 0;
  if (tid == log.tid) return log.innermost.load(std::memory_order_relaxed);
  if (log.last_forward == nullptr || log.last_forward->tid != tid) log.last_forward = find(tid);
  // The forward pass may have run where nothing was recorded.
  return log.last_forward == nullptr ? 0 : log.last_forward->innermost.load(std::memory_order_relaxed);
}

bool Recorder::forget(ThreadLog& log, uint64_t rf_id) {
  auto& open = log.open;
  // Most often the last one; annotations may end in any order.
  auto found = std::find(open.rbegin(), open.rend(), rf_id);
  if (found == open.rend()) return false;
  open.erase(std::next(found).base());
  log.innermost.store(open.empty() ? log.root : function_node(open.back()), std::memory_order_relaxed);
  return true;
}

void Recorder::forget_ended_elsewhere(ThreadLog& log) {
  std::lock_guard<std::mutex> lock(log.mutex);
  for (uint64_t rf_id : log.ended_elsewhere) forget(log, rf_id);
  log.ended_elsewhere.clear();
  log.has_ended_elsewhere.store(false, std::memory_order_relaxed);
}

// The thread that a function says it is of made it; another one may have begun it.
void Recorder::tell_others(uint64_t rf_id) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto& log : threads_) {
    if (!is_function_node(log->innermost.load(std::memory_order_relaxed))) continue;
    std::lock_guard<std::mutex> log_lock(log->mutex);
    log->ended_elsewhere.push_back(rf_id);
    log->has_ended_elsewhere.store(true, std::memory_order_release);
  }
}

ThreadLog* Recorder::find(uint64_t tid) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = by_tid_.find(tid);
  return found == by_tid_.end() ? nullptr : found->second;
}

ThreadLog& Recorder::log_of_this_thread() {
  uint64_t tid = at::RecordFunction::currentThreadId();
  std::lock_guard<std::mutex> lock(mutex_);
  ThreadLog*& log = by_tid_[tid];
  if (log == nullptr) {
    threads_.push_back(std::make_unique<ThreadLog>());
    log = threads_.back().get();
    log->number = threads_.size() - 1;
    log->tid = tid;
  }
  // It is there already, but retired, where the thread ends and still runs operators while it does.
  if (log->scratch == nullptr) log->scratch = std::make_unique<Scratch>(names_);
  return *log;
}

void Recorder::retire(ThreadLog& log) {
  if (log.chunk != nullptr) store_.hand_in(std::move(log.chunk));
  log.scratch.reset();
}

void Recorder::hand_in_everything() {
  for (auto& log : threads_) retire(*log);
}

}  // namespace tracebraid
