// Arena: a bump allocator for the scratch of a call, of a chain of calls or of a training step. Buffers are taken one
// after the other and released all at once. The memory is kept, so repeated calls allocate nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "heed/core/error.h"
#include "heed/core/memory.h"

namespace heed {

// Not thread-safe: one thread uses an arena at a time. The workers of a parallel_for get slices of it (WorkerArenas).
class Arena {
 public:
  // Grows as needed.
  Arena() = default;

  // Uses the caller's memory, aligned to 64 bytes. It does not grow: a request that does not fit is an Error.
  Arena(void* memory, size_t bytes);

  // Allocates nothing and only counts bytes: every pointer is null. The code that takes the buffers thus also computes
  // how many bytes they need (peak_bytes), and the two cannot drift apart.
  static Arena dry_run();

  Arena(const Arena&) = delete;  // not movable either: scopes point to it
  Arena& operator=(const Arena&) = delete;
  ~Arena() = default;

  // `count` uninitialised values of T, aligned to a cache line.
  template <class T>
  T* take(int64_t count) {
    static_assert(std::is_trivially_destructible_v<T>, "nothing is destroyed when the memory is given back");
    static_assert(alignof(T) <= kAlignment);
    check(count >= 0 && count <= kMostBytes / static_cast<int64_t>(sizeof(T)), "Arena", count, " values of ", sizeof(T),
          " bytes are more than there is memory for");
    return static_cast<T*>(take_bytes(round_up(static_cast<size_t>(count) * sizeof(T), kAlignment)));
  }

  bool is_dry_run() const { return kind_ == Kind::dry_run; }

  // Bytes taken and not yet released, with alignment padding.
  size_t used_bytes() const { return used_; }
  // The maximum of used_bytes() so far: the result of a dry run.
  size_t peak_bytes() const { return std::max(most_, used_); }
  // Bytes allocated.
  size_t capacity_bytes() const;

  // On destruction, releases everything taken since construction. Scopes nest.
  class Scope {
   public:
    explicit Scope(Arena& arena) : arena_(arena), mark_{arena.block_, arena.offset_, arena.used_} {}
    ~Scope() { arena_.give_back(mark_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    friend class Arena;
    Arena& arena_;
    struct Mark {
      size_t block, offset, used;
    } mark_;
  };

 private:
  static constexpr int64_t kMostBytes = int64_t{1} << 50;
  enum class Kind { growing, given, dry_run };
  struct Block {
    AlignedArray<std::byte> memory;
    size_t bytes = 0;
  };

  explicit Arena(Kind kind) : kind_(kind) {}

  void* take_bytes(size_t bytes) {
    if (bytes > size_ - offset_) return take_elsewhere(bytes);
    std::byte* const part = base_ + offset_;
    offset_ += bytes;
    used_ += bytes;
    return part;
  }
  void* take_elsewhere(size_t bytes);
  void use_block(size_t index, size_t offset);
  void give_back(const Scope::Mark& mark) noexcept;

  Kind kind_ = Kind::growing;
  std::byte* base_ = nullptr;  // of the current block
  size_t size_ = 0;            // of the current block, in bytes
  size_t offset_ = 0;          // of the first free byte
  size_t used_ = 0;            // bytes in all blocks
  size_t most_ = 0;            // maximum of used_ so far
  size_t block_ = 0;
  std::vector<Block> blocks_;  // of a growing arena
};

// The arena of a call: the caller's, or a temporary one if none is given.
class CallArena {
 public:
  explicit CallArena(Arena* given) : arena_(given != nullptr ? *given : own_) {
    if (given == nullptr) return;
    check(!given->is_dry_run(), "Arena", "a dry run only counts: a call needs an arena with memory");
    scope_.emplace(*given);
  }
  Arena& operator*() { return arena_; }
  Arena* operator->() { return &arena_; }

 private:
  Arena own_;
  Arena& arena_;
  std::optional<Arena::Scope> scope_;
};

// Equal slices of an arena, one per worker of a parallel_for.
class WorkerArenas {
 public:
  WorkerArenas(Arena& arena, int64_t workers, size_t bytes_each)
      : bytes_(round_up(bytes_each, kAlignment)),
        memory_(arena.take<std::byte>(workers * static_cast<int64_t>(bytes_))) {}

  // Starts empty at each call: what the worker's previous task took is released.
  Arena of(int worker) const { return {memory_ + static_cast<size_t>(worker) * bytes_, bytes_}; }

 private:
  size_t bytes_;
  std::byte* memory_;
};

}  // namespace heed
