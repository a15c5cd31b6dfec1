#include "recorder.h"

#include <algorithm>
#include <cstring>

#include "assertions.h"
#include "attributes.h"
#include "group_attributes.h"
#include "record_format.h"

namespace tracebraid {
namespace {

// The values may be a whole stack, of which the function's own are the last.
Values own_values(Values values, size_t count) {
  return values.slice(values.size() < count ? values.size() : values.size() - count);
}

}  // namespace

Recorder::Recorder(Options options)
    : options_(std::move(options)), chunks_(options_.spill_path, options_.memory_bytes) {}

void Recorder::enter(const at::RecordFunction& function, ThreadLog*& own_log) {
  if (own_log == nullptr) own_log = &log_of_this_thread();
  ThreadLog& log = *own_log;
  if (log.root == 0) {
    log.root = thread_node(function.handle());
    log.innermost.store(log.root, std::memory_order_relaxed);
  }
  if (log.has_ended_elsewhere.load(std::memory_order_acquire)) close_ended_elsewhere(log);

  ThreadBuffers& buffers = *log.buffers;
  Bytes& out = buffers.record;
  auto [name_number, is_operator] = buffers.names.find(function);
  uint64_t rf_id = function.handle();

  out.clear();
  out.reserve(3 + 8 * Bytes::kNumber);
  out.byte(kEnter);
  size_t flags_at = out.size();
  uint8_t flags = name_number == 0 ? kNameInline : 0;
  out.byte(flags);
  out.byte(static_cast<uint8_t>(function.scope()));
  out.number(rf_id);
  out.number(log.innermost.load(std::memory_order_relaxed));
  out.number(forward_parent(function, log));
  out.number(name_number);
  if (name_number == 0) out.text(function.name());
  out.reserve(3 * Bytes::kNumber);
  out.signed_number(function.seqNr());
  out.number(function.forwardThreadId());

  write_values(out, function.inputs(), function.num_inputs(), buffers.identities);
  if (options_.integral_ranges) {
    std::string ranges = integral_ranges(function.inputs());
    if (!ranges.empty()) {
      flags |= kRanges;
      out.text(ranges);
    }
  }
  if (!options_.saved_ops.empty() && options_.saved_ops.count(function.name()) != 0) {
    save_integers(options_.saved_prefix + std::to_string(function_node(rf_id)) + "_tid_", function.inputs());
  }
  // Reading keyword inputs copies a map, and neither operators nor nodes of autograd have any.
  if (!is_operator && function.seqNr() < 0 && write_kernel(out, function)) flags |= kKernel;
  if (is_operator && write_process_group(out, own_values(function.inputs(), function.num_inputs()))) {
    flags |= kProcessGroup;
  }
  out.set(flags_at, flags);
  append_record(log);

  // An asynchronous function ends whenever another thread is done with it: it encloses nothing of this thread.
  if (!function.isAsync()) {
    log.open.push_back(rf_id);
    log.innermost.store(function_node(rf_id), std::memory_order_relaxed);
  }
}

void Recorder::exit(const at::RecordFunction& function, ThreadLog*& own_log) {
  if (own_log == nullptr) own_log = &log_of_this_thread();
  ThreadLog& log = *own_log;
  bool is_own = close_function(log, function.handle());
  if (!is_own && !function.isAsync()) notify_other_threads(function.handle());

  Bytes& out = log.buffers->record;
  Values outputs(function.outputs().data(), function.outputs().size());
  size_t count = function.num_outputs();
  uint8_t flags = outputs.size() < count ? kRaised : 0;
  out.clear();
  out.reserve(2 + 2 * Bytes::kNumber);
  out.byte(kExit);
  size_t flags_at = out.size();
  out.byte(flags);
  out.number(function.handle());
  write_values(out, outputs, count, log.buffers->identities);
  if (function.isNcclMeta() && write_comms(out, function)) flags |= kComms;
  out.set(flags_at, flags);
  append_record(log);
}

void Recorder::write_values(Bytes& out, Values values, size_t count, IdentityCache& cache) {
  Values own = own_values(values, count);
  out.reserve(Bytes::kNumber);
  out.number(own.size());
  for (const c10::IValue& value : own) write_value(out, value, identities_, cache);
}

void Recorder::append_record(ThreadLog& log) {
  const Bytes& record = log.buffers->record;
  uint32_t size = static_cast<uint32_t>(record.size());
  if (log.chunk == nullptr || log.chunk->capacity - log.chunk->used < sizeof size + size) {
    if (log.chunk != nullptr) chunks_.hand_over(std::move(log.chunk));
    log.chunk = chunks_.acquire(log.index, sizeof size + size);
  }
  Chunk& chunk = *log.chunk;
  TRACEBRAID_ASSERT(chunk.thread == log.index);
  TRACEBRAID_ASSERT(chunk.used + sizeof size + size <= chunk.capacity);
  std::memcpy(chunk.data.get() + chunk.used, &size, sizeof size);
  std::memcpy(chunk.data.get() + chunk.used + sizeof size, record.data(), size);
  chunk.used += sizeof size + size;
  // The next record goes here. Without the prefetch, PyTorch's next atomic instruction waits for these cache lines.
  for (size_t line = 1; line <= 3; line++) __builtin_prefetch(chunk.data.get() + chunk.used + 64 * line, 1);
}

uint64_t Recorder::forward_parent(const at::RecordFunction& function, ThreadLog& log) {
  uint64_t tid = function.forwardThreadId();
  if (tid == 0) return 0;
  if (tid == log.tid) return log.innermost.load(std::memory_order_relaxed);
  if (log.last_forward == nullptr || log.last_forward->tid != tid) log.last_forward = find_log(tid);
  // The forward pass may have run before recording was on.
  return log.last_forward == nullptr ? 0 : log.last_forward->innermost.load(std::memory_order_relaxed);
}

bool Recorder::close_function(ThreadLog& log, uint64_t rf_id) {
  auto& open = log.open;
  // Usually the last; annotations may end in any order.
  auto found = std::find(open.rbegin(), open.rend(), rf_id);
  if (found == open.rend()) return false;
  open.erase(std::next(found).base());
  log.innermost.store(open.empty() ? log.root : function_node(open.back()), std::memory_order_relaxed);
  return true;
}

void Recorder::close_ended_elsewhere(ThreadLog& log) {
  std::lock_guard<std::mutex> lock(log.mutex);
  for (uint64_t rf_id : log.ended_elsewhere) close_function(log, rf_id);
  log.ended_elsewhere.clear();
  log.has_ended_elsewhere.store(false, std::memory_order_relaxed);
}

// RecordFunction::threadId() is the thread that made the object; another may have begun it. So each thread that has an
// open function is notified, and the one that has this function closes it.
void Recorder::notify_other_threads(uint64_t rf_id) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto& log : threads_) {
    if (!is_function_node(log->innermost.load(std::memory_order_relaxed))) continue;
    std::lock_guard<std::mutex> log_lock(log->mutex);
    log->ended_elsewhere.push_back(rf_id);
    log->has_ended_elsewhere.store(true, std::memory_order_release);
  }
}

ThreadLog* Recorder::find_log(uint64_t tid) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = log_by_tid_.find(tid);
  return found == log_by_tid_.end() ? nullptr : found->second;
}

ThreadLog& Recorder::log_of_this_thread() {
  uint64_t tid = at::RecordFunction::currentThreadId();
  std::lock_guard<std::mutex> lock(mutex_);
  ThreadLog*& log = log_by_tid_[tid];
  if (log == nullptr) {
    threads_.push_back(std::make_unique<ThreadLog>(threads_.size(), tid));
    log = threads_.back().get();
  }
  // A thread that has retired its log may run operators after that, while it ends.
  if (log->buffers == nullptr) log->buffers = std::make_unique<ThreadBuffers>(names_);
  return *log;
}

void Recorder::retire(ThreadLog& log) {
  if (log.chunk != nullptr) chunks_.hand_over(std::move(log.chunk));
  log.buffers.reset();
}

void Recorder::retire_all() {
  for (auto& log : threads_) retire(*log);
}

}  // namespace tracebraid
