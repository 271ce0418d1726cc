// KvCache: a paged cache of the keys and values of many sequences, for decoding. Sequences hold pages of 128 keys and
// can share them: a fork (a beam, or a common prompt) copies nothing until it is appended to, and then at most its last
// page.
//
//     KvCache cache({.capacity = 8192, .sequences = 4, .kv_heads = 8, .d_k = 64, .d_v = 64});
//     const int64_t sequence = cache.add();
//     cache.append({sequence, 0, k, v});                      // the prompt's keys and values
//     attention_decode(cache, {&sequence, 1}, q, {}, out);    // heed/attention/decode.h
//
// A call that throws an Error leaves the cache unchanged. Calls that modify the cache must not run concurrently with
// any other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "heed/core/large_memory.h"
#include "heed/core/view.h"

namespace heed {

// Keys per page: one piece of the order of arithmetic (README.md).
inline constexpr int64_t kPageKeys = 128;

// Rows of V are padded to a multiple of this many elements, the widest vector.
inline constexpr int64_t kKvUnit = 16;

enum class KvStorage {
  f32,   // decode has the bits of the full forward
  bf16,  // half the bytes, rounded to nearest even on append; arithmetic stays f32
};

struct KvCacheOptions {
  int64_t capacity = 0;   // keys of all sequences together; rounded up to whole pages
  int64_t sequences = 1;  // the most sequences at a time
  int64_t kv_heads = 1;
  int64_t d_k = 0;
  int64_t d_v = 0;
  KvStorage storage = KvStorage::f32;
  // The caller's memory: KvCache::bytes(options) bytes, aligned to 64, that outlive the cache. Null: the cache
  // allocates its own memory and requests huge pages.
  std::byte* memory = nullptr;
};

// The memory layout. For each head and page: K as panels [Dk][panel keys], then V as panels [128 keys][panel widths],
// the last one narrower if Dv is not a multiple of the panel. Decode reads the panels sequentially. The pages of a head
// are contiguous, so a sequence that was appended at once is read as one stream.
struct KvLayout {
  KvStorage storage = KvStorage::f32;
  int64_t kv_heads = 0;
  int64_t d_k = 0;
  int64_t d_v = 0;
  int64_t v_step = 0;  // Dv rounded up to kKvUnit
  int panel_bits = 0;  // a panel is 2^panel_bits keys of K, or widths of V: 32 or 64
  int64_t pages = 0;
  std::byte* data = nullptr;

  int64_t element_bytes() const { return storage == KvStorage::f32 ? 4 : 2; }
  int64_t k_bytes() const { return kPageKeys * d_k * element_bytes(); }
  int64_t page_bytes() const { return k_bytes() + kPageKeys * v_step * element_bytes(); }
  std::byte* k_page(int64_t head, int64_t page) const { return data + (head * pages + page) * page_bytes(); }
  std::byte* v_page(int64_t head, int64_t page) const { return k_page(head, page) + k_bytes(); }
  int64_t panel() const { return int64_t{1} << panel_bits; }
  // The first key, or width, after the panel that contains `at`.
  int64_t panel_end(int64_t at) const { return ((at >> panel_bits) + 1) << panel_bits; }
  // The index in a page of element d of a key. It is followed by the panel's next keys (K) or widths (V).
  int64_t k_at(int64_t key, int64_t d) const {
    return (((key >> panel_bits) * d_k + d) << panel_bits) + (key & (panel() - 1));
  }
  int64_t v_at(int64_t key, int64_t d) const {
    const int64_t first = d & -panel();
    return first * kPageKeys + key * v_panel(d) + d - first;
  }
  // The number of widths of the panel that contains d.
  int64_t v_panel(int64_t d) const {
    const int64_t left = v_step - (d & -panel());
    return left < panel() ? left : panel();
  }
};

// New keys and values of one sequence.
struct KvChunk {
  int64_t sequence = 0;
  int64_t position = 0;      // of its first key; must be the sequence's current length
  View<const float, 3> k{};  // [T, Hkv, Dk]
  View<const float, 3> v{};  // [T, Hkv, Dv]
};

class KvCache {
 public:
  explicit KvCache(const KvCacheOptions& options);

  // The memory that a cache with these options needs.
  static int64_t bytes(const KvCacheOptions& options);

  // Adds a new, empty sequence.
  int64_t add();
  // Removes a sequence. Its number may be reused.
  void remove(int64_t sequence);
  bool contains(int64_t sequence) const;

  // Appends to sequences: all chunks, or none if one is invalid.
  void append(const KvChunk& chunk) { append(std::span<const KvChunk>(&chunk, 1)); }
  void append(std::span<const KvChunk> chunks);
  // Drops the keys from `length` on.
  void truncate(int64_t sequence, int64_t length);
  // A new sequence with the same keys and values, in shared pages.
  int64_t fork(int64_t sequence);
  // For beam search: sequences[i] becomes what sequences[parents[i]] was before the call.
  void reorder(std::span<const int64_t> sequences, std::span<const int64_t> parents);

  int64_t length(int64_t sequence) const;
  // How many keys can be appended to the sequence before the cache is full.
  int64_t free_keys(int64_t sequence) const;
  int64_t free_pages() const { return static_cast<int64_t>(free_.size()); }
  // The pages of a sequence, in order.
  std::span<const int32_t> pages(int64_t sequence) const;
  const KvLayout& layout() const { return layout_; }

 private:
  struct Sequence {
    bool alive = false;
    int64_t length = 0;
    std::vector<int32_t> pages;
    uint64_t call = 0;  // the last call that named this sequence
  };

  // How many chunks of a call stop sharing a page.
  struct Leaving {
    uint64_t call = 0;
    int32_t count = 0;
  };

  const Sequence& at(const char* function, int64_t sequence) const;
  Sequence& at(const char* function, int64_t sequence);
  int64_t new_sequence(const char* function, const Sequence& like);
  void check_chunk(const KvChunk& chunk) const;
  void check_room(std::span<const KvChunk> chunks);
  bool mark_first_in_call(Sequence& sequence);
  int32_t leave_last(const Sequence& sequence);
  bool shares_last(const Sequence& sequence, int32_t leaving) const;
  void make_room(Sequence& sequence, int64_t keys);
  void store(const KvChunk& chunk);
  int32_t take_page();
  void release_pages(Sequence& sequence, size_t kept);

  KvLayout layout_;
  LargeMemory memory_;
  std::vector<Sequence> sequences_;
  int64_t first_free_ = 0;        // no sequence before this one is free
  std::vector<int32_t> users_;    // per page: how many sequences hold it
  std::vector<int32_t> free_;     // free pages, the next one last
  uint64_t call_ = 0;             // counts append and reorder calls; marks of earlier calls are void
  std::vector<Leaving> leaving_;  // per page
};

}  // namespace heed
