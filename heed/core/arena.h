// Arena: the memory of a call, of a chain of calls or of a training step. Parts are taken one after the other and given
// back all at once, and the memory stays, so that nothing is allocated after the first time.
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

// One arena serves one thread at a time; threads that work together get parts of it (WorkerArenas).
class Arena {
 public:
  // Grows as it has to.
  Arena() = default;

  // Memory of the caller's, on a boundary of 64 bytes. It does not grow: what does not fit is refused.
  Arena(void* memory, size_t bytes);

  // Takes no memory and counts the bytes: every pointer is null. So the code that takes parts also tells how many bytes
  // they need (peak_bytes), and the two cannot drift apart.
  static Arena dry_run();

  Arena(const Arena&) = delete;  // nor moved: scopes point to it
  Arena& operator=(const Arena&) = delete;
  ~Arena() = default;

  // `count` values of T on a cache-line boundary, not initialised.
  template <class T>
  T* take(int64_t count) {
    static_assert(std::is_trivially_destructible_v<T>, "nothing is destroyed when the memory is given back");
    static_assert(alignof(T) <= kAlignment);
    check(count >= 0 && count <= kMostBytes / static_cast<int64_t>(sizeof(T)), "Arena", count, " values of ", sizeof(T),
          " bytes are more than there is memory for");
    return static_cast<T*>(take_bytes(round_up(static_cast<size_t>(count) * sizeof(T), kAlignment)));
  }

  bool is_dry_run() const { return kind_ == Kind::dry_run; }

  // Bytes taken and not given back, with what alignment adds.
  size_t used_bytes() const { return used_; }
  // The most that was ever used: what a dry run finds.
  size_t peak_bytes() const { return std::max(most_, used_); }
  // Bytes it holds.
  size_t capacity_bytes() const;

  // Gives back, at its end, everything that was taken since its beginning. Scopes nest.
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
  std::byte* base_ = nullptr;  // of the block in use
  size_t size_ = 0;            // its bytes
  size_t offset_ = 0;          // the first free one
  size_t used_ = 0;            // in all blocks
  size_t most_ = 0;            // the most that was ever used
  size_t block_ = 0;
  std::vector<Block> blocks_;  // of a growing arena
};

// The arena of a call: the caller's, or, where none is given, one for this call alone.
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

// Equal parts of an arena, one for each worker of a parallel_for.
class WorkerArenas {
 public:
  WorkerArenas(Arena& arena, int64_t workers, size_t bytes_each)
      : bytes_(round_up(bytes_each, kAlignment)),
        memory_(arena.take<std::byte>(workers * static_cast<int64_t>(bytes_))) {}

  // Empty at each call: what the worker's task before it took is given back.
  Arena of(int worker) const { return {memory_ + static_cast<size_t>(worker) * bytes_, bytes_}; }

 private:
  size_t bytes_;
  std::byte* memory_;
};

}  // namespace heed
