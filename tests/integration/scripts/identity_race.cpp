// Provokes the race in Identities::alias_of, and proves the ids: `identity_race SECONDS`.
//
// Threads make, resize and drop storages over a few blocks of memory that pass from thread to thread at once, as in an
// allocator. So a new storage often lies where a storage of another thread lay, which at that moment is given other
// memory or is destroyed; alias_of reads that storage's address meanwhile. What must hold:
//   - a storage over memory of its own never has the id of another storage;
//   - a storage that shares the memory of a living one has the same id.
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <unordered_set>
#include <vector>

#include "identity.h"

namespace {

using namespace tracebraid;

constexpr int kThreads = 4;
constexpr int kKept = 3;                             // storages that a thread keeps alive
constexpr int kChanges = 4;                          // in a row, without a lock that Identities takes too
constexpr int kBlocks = kThreads * (kKept + 2) + 1;  // enough to go on, and few: a block changes threads soon
constexpr size_t kBlockBytes = 64;

// Gives the block that was freed last, as allocators do.
struct BlockPool {
  std::mutex mutex;
  std::vector<void*> blocks;  // guarded by mutex

  BlockPool() {
    for (int i = 0; i < kBlocks; i++) blocks.push_back(std::malloc(kBlockBytes));
  }
  ~BlockPool() {
    for (void* block : blocks) std::free(block);
  }
  void* take() {
    while (true) {
      {
        std::lock_guard<std::mutex> lock(mutex);
        if (!blocks.empty()) {
          void* block = blocks.back();
          blocks.pop_back();
          return block;
        }
      }
      std::this_thread::yield();
    }
  }
  void give(void* block) {
    std::lock_guard<std::mutex> lock(mutex);
    blocks.push_back(block);
  }
};

BlockPool pool;

void give_to_pool(void* block) { pool.give(block); }

// A storage that is destroyed frees its block before it clears its address: the pause keeps it in between.
void give_to_pool_and_pause(void* block) {
  pool.give(block);
  std::this_thread::sleep_for(std::chrono::microseconds(20));
}

c10::DataPtr owned_block(c10::DeleterFnPtr deleter = &give_to_pool) {
  void* block = pool.take();
  return {block, block, deleter, c10::Device(c10::kCPU)};
}

c10::Storage storage_over(c10::DataPtr data) {
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), kBlockBytes,
                                                            std::move(data), nullptr, false));
}

uint64_t id_of(Identities& identities, IdentityCache& cache, const c10::Storage& storage) {
  auto tensor = c10::make_intrusive<c10::TensorImpl>(c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                     caffe2::TypeMeta::Make<float>());
  return identities.of_tensor_with_storage(*tensor, cache).storage;
}

struct Findings {
  std::vector<uint64_t> ids;  // of storages over memory of their own
  uint64_t aliases = 0;
  uint64_t wrong_aliases = 0;
};

void run(Identities& identities, std::chrono::steady_clock::time_point end, Findings& findings) {
  IdentityCache cache;
  std::array<c10::Storage, kKept> kept;
  for (c10::Storage& storage : kept) storage = storage_over(owned_block());
  for (uint64_t round = 0; std::chrono::steady_clock::now() < end; round++) {
    c10::Storage brief = storage_over(owned_block(&give_to_pool_and_pause));
    findings.ids.push_back(id_of(identities, cache, brief));
    brief = c10::Storage();
    c10::Storage& newest = kept[round % kKept];
    newest = storage_over(owned_block());
    uint64_t id = id_of(identities, cache, newest);
    findings.ids.push_back(id);
    if (round % 3 == 0) {
      c10::Storage shared = storage_over({newest.mutable_data(), c10::Device(c10::kCPU)});
      findings.aliases++;
      if (id_of(identities, cache, shared) != id) findings.wrong_aliases++;
    }
    // Storages that stay alive get other memory, as resize_ gives it: the block they were seen over goes to any thread.
    for (int i = 0; i < kChanges; i++) {
      kept[(round + 1) % kKept].unsafeGetStorageImpl()->set_data_ptr(owned_block());
      kept[(round + 2) % kKept].unsafeGetStorageImpl()->set_data_ptr_noswap(owned_block());
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = argc > 1 ? std::atof(argv[1]) : 2;
  auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(static_cast<int>(seconds * 1000));
  Identities identities;
  std::array<Findings, kThreads> findings;
  std::vector<std::thread> threads;
  for (Findings& own : findings) threads.emplace_back([&] { run(identities, end, own); });
  for (std::thread& thread : threads) thread.join();
  std::unordered_set<uint64_t> all;
  size_t storages = 0;
  uint64_t aliases = 0;
  uint64_t wrong = 0;
  for (const Findings& own : findings) {
    all.insert(own.ids.begin(), own.ids.end());
    storages += own.ids.size();
    aliases += own.aliases;
    wrong += own.wrong_aliases;
  }
  std::printf("%zu storages, %zu ids used again, %llu aliases, %llu of them wrong\n", storages, storages - all.size(),
              static_cast<unsigned long long>(aliases), static_cast<unsigned long long>(wrong));
  return storages == all.size() && wrong == 0 && aliases > 0 ? 0 : 1;
}
