#include "heed/attention/kv_cache.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "heed/attention/kv_pages.h"
#include "heed/core/error.h"
#include "heed/core/extent.h"
#include "heed/core/memory.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/dispatch.h"

namespace heed {
namespace {

constexpr int64_t kMostSequences = int64_t{1} << 20;

KvLayout layout_of(const char* function, const KvCacheOptions& options) {
  check(options.capacity >= 1 && options.capacity <= kMostLength, function, "capacity is ", options.capacity,
        " keys; give 1 to 2^30");
  check(options.sequences >= 1 && options.sequences <= kMostSequences, function, "sequences is ", options.sequences,
        "; give 1 to 2^20");
  check(options.kv_heads >= 1 && options.d_k >= 1 && options.d_v >= 1, function,
        "kv_heads, d_k and d_v must be at least 1, got ", options.kv_heads, ", ", options.d_k, " and ", options.d_v);
  check(options.d_k <= kMostWidth && options.d_v <= kMostWidth, function, "d_k and d_v are ", options.d_k, " and ",
        options.d_v, "; give at most 2^30");
  KvLayout layout;
  layout.storage = options.storage;
  layout.kv_heads = options.kv_heads;
  layout.d_k = options.d_k;
  layout.d_v = options.d_v;
  layout.v_step = round_up(options.d_v, kKvUnit);
  layout.panel_bits = kv_panel_bits(isa(), options.storage);
  layout.pages = divide_up(options.capacity, kPageKeys);
  check_sizes(function, "the cache [keys, Hkv, Dk + Dv]",
              Shape<3>{layout.pages * kPageKeys, layout.kv_heads, layout.d_k + layout.v_step});
  return layout;
}

// The first `keys` keys of a page, of all heads.
void copy_page(const KvLayout& layout, int64_t from, int64_t to, int64_t keys) {
  const int64_t size = layout.element_bytes();
  const auto k_bytes = static_cast<size_t>(round_up(keys, layout.panel()) * layout.d_k * size);
  for (int64_t head = 0; head < layout.kv_heads; ++head) {
    std::memcpy(layout.k_page(head, to), layout.k_page(head, from), k_bytes);
    for (int64_t d = 0; d < layout.d_v; d += layout.panel()) {
      const int64_t panel = layout.v_at(0, d) * size;
      const auto v_bytes = static_cast<size_t>(keys * layout.v_panel(d) * size);
      std::memcpy(layout.v_page(head, to) + panel, layout.v_page(head, from) + panel, v_bytes);
    }
  }
}

}  // namespace

KvCache::KvCache(const KvCacheOptions& options) : layout_(layout_of("KvCache", options)) {
  const auto pages = static_cast<size_t>(layout_.pages);
  check(reinterpret_cast<uintptr_t>(options.memory) % kAlignment == 0, "KvCache", "memory must lie on a boundary of ",
        kAlignment, " bytes");
  sequences_.resize(static_cast<size_t>(options.sequences));
  users_.assign(pages, 0);
  leaving_.resize(pages);
  free_.resize(pages);
  for (size_t i = 0; i < pages; ++i) free_[i] = static_cast<int32_t>(pages - 1 - i);
  layout_.data = options.memory;
  if (options.memory == nullptr) {
    memory_ = allocate_large(static_cast<size_t>(bytes(options)));
    layout_.data = memory_.get();
  }
}

int64_t KvCache::bytes(const KvCacheOptions& options) {
  const KvLayout layout = layout_of("KvCache::bytes", options);
  return layout.kv_heads * layout.pages * layout.page_bytes();
}

bool KvCache::contains(int64_t sequence) const {
  return sequence >= 0 && sequence < static_cast<int64_t>(sequences_.size()) &&
         sequences_[static_cast<size_t>(sequence)].alive;
}

const KvCache::Sequence& KvCache::at(const char* function, int64_t sequence) const {
  check(contains(sequence), function, "there is no sequence ", sequence, "; KvCache::add and fork give their numbers");
  return sequences_[static_cast<size_t>(sequence)];
}

KvCache::Sequence& KvCache::at(const char* function, int64_t sequence) {
  return const_cast<Sequence&>(std::as_const(*this).at(function, sequence));
}

int64_t KvCache::length(int64_t sequence) const { return at("KvCache::length", sequence).length; }

std::span<const int32_t> KvCache::pages(int64_t sequence) const { return at("KvCache::pages", sequence).pages; }

int64_t KvCache::new_sequence(const char* function, const Sequence& like) {
  const auto found = std::ranges::find(sequences_.begin() + first_free_, sequences_.end(), false, &Sequence::alive);
  check(found != sequences_.end(), function, "all ", sequences_.size(),
        " sequences of the cache are in use; remove one, or give KvCacheOptions more sequences");
  found->pages = like.pages;
  found->length = like.length;
  found->alive = true;
  first_free_ = found - sequences_.begin() + 1;
  for (const int32_t page : found->pages) ++users_[static_cast<size_t>(page)];
  return found - sequences_.begin();
}

int64_t KvCache::add() { return new_sequence("KvCache::add", {}); }

int64_t KvCache::fork(int64_t sequence) {
  const Sequence& parent = at("KvCache::fork", sequence);
  check(parent.length > 0, "KvCache::fork", "sequence ", sequence,
        " is empty, so there is nothing to share; KvCache::add gives a new one");
  return new_sequence("KvCache::fork", parent);
}

void KvCache::remove(int64_t sequence) {
  Sequence& ended = at("KvCache::remove", sequence);
  release_pages(ended, 0);
  ended.length = 0;
  ended.alive = false;
  first_free_ = std::min(first_free_, sequence);
}

void KvCache::truncate(int64_t sequence, int64_t length) {
  Sequence& shortened = at("KvCache::truncate", sequence);
  check(length >= 0 && length <= shortened.length, "KvCache::truncate", "asked for ", length, " keys of sequence ",
        sequence, ", which has ", shortened.length);
  release_pages(shortened, static_cast<size_t>(divide_up(length, kPageKeys)));
  shortened.length = length;
}

void KvCache::reorder(std::span<const int64_t> sequences, std::span<const int64_t> parents) {
  constexpr const char* kName = "KvCache::reorder";
  check(sequences.size() == parents.size(), kName, "got ", sequences.size(), " sequences and ", parents.size(),
        " parents; give one parent a sequence");
  ++call_;
  for (size_t i = 0; i < sequences.size(); ++i) {
    check(mark_first_in_call(at(kName, sequences[i])), kName, "sequence ", sequences[i], " is given twice");
    check(parents[i] >= 0 && parents[i] < static_cast<int64_t>(sequences.size()), kName, "parent ", parents[i],
          " is no index into the ", sequences.size(), " sequences");
  }
  // The new page tables first: all that can fail is done before anything changes.
  std::vector<Sequence> next;
  next.reserve(sequences.size());
  for (const int64_t parent : parents) next.push_back(at(kName, sequences[static_cast<size_t>(parent)]));
  for (const Sequence& each : next) {
    for (const int32_t page : each.pages) ++users_[static_cast<size_t>(page)];
  }
  for (size_t i = 0; i < sequences.size(); ++i) {
    Sequence& replaced = at(kName, sequences[i]);
    release_pages(replaced, 0);
    replaced = std::move(next[i]);
  }
}

int64_t KvCache::free_keys(int64_t sequence) const {
  const Sequence& of = at("KvCache::free_keys", sequence);
  const int64_t room = static_cast<int64_t>(of.pages.size()) * kPageKeys - of.length;
  const bool copies = shares_last(of, 0);
  if (copies && free_.empty()) return 0;
  return room + (free_pages() - (copies ? 1 : 0)) * kPageKeys;
}

// True if the next key would go into a page that is still shared after `leaving` holders got their own copies.
bool KvCache::shares_last(const Sequence& sequence, int32_t leaving) const {
  return sequence.length % kPageKeys != 0 && users_[static_cast<size_t>(sequence.pages.back())] - leaving > 1;
}

void KvCache::check_chunk(const KvChunk& chunk) const {
  constexpr const char* kName = "KvCache::append";
  const Sequence& sequence = at(kName, chunk.sequence);
  const int64_t keys = chunk.k.size(0);
  const auto check_rows = [&](const char* name, const View<const float, 3>& rows, int64_t width) {
    const Shape<3> expected{keys, layout_.kv_heads, width};
    check_given(kName, name, rows);
    check(rows.shape() == expected && keys >= 0, kName, name, " has shape ", rows.shape(),
          ", expected [T, Hkv, D] = ", expected);
    check_view(kName, name, rows);
    check(width == 1 || rows.stride(2) == 1, kName, name, " has strides ", rows.strides(),
          "; its last dimension must be contiguous (stride 1): copy it first");
  };
  check_rows("k", chunk.k, layout_.d_k);
  check_rows("v", chunk.v, layout_.d_v);
  check(chunk.position == sequence.length, kName, "the chunk begins at position ", chunk.position, ", but sequence ",
        chunk.sequence, " has ", sequence.length, " keys; a chunk must continue the sequence",
        chunk.position < sequence.length ? ": truncate it first" : "");
}

bool KvCache::mark_first_in_call(Sequence& sequence) { return std::exchange(sequence.call, call_) != call_; }

// How many earlier chunks of the call leave the page that this sequence continues, and from now on this one too.
int32_t KvCache::leave_last(const Sequence& sequence) {
  if (sequence.length % kPageKeys == 0) return 0;
  Leaving& leaving = leaving_[static_cast<size_t>(sequence.pages.back())];
  if (std::exchange(leaving.call, call_) != call_) leaving.count = 0;
  return leaving.count++;
}

void KvCache::check_room(std::span<const KvChunk> chunks) {
  constexpr const char* kName = "KvCache::append";
  ++call_;
  int64_t needed = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    Sequence& sequence = at(kName, chunks[i].sequence);
    check(mark_first_in_call(sequence), kName, "sequence ", chunks[i].sequence, " is given twice in one call");
    const int64_t keys = chunks[i].k.size(0);
    if (keys == 0) continue;
    const auto held = static_cast<int64_t>(sequence.pages.size());
    check(keys <= std::numeric_limits<int32_t>::max(), kName, "a chunk of ", keys, " keys");
    const int32_t leaving = leave_last(sequence);
    needed += divide_up(sequence.length + keys, kPageKeys) - held + (shares_last(sequence, leaving) ? 1 : 0);
    check(needed <= free_pages(), kName, "the cache is full: ", keys, " keys do not fit sequence ", chunks[i].sequence,
          i > 0 ? " after the chunks before it; " : "; ", free_keys(chunks[i].sequence), " keys fit (", free_pages(),
          " of ", layout_.pages, " pages of ", kPageKeys,
          " keys are free): truncate or remove sequences, or give KvCacheOptions more capacity");
  }
}

void KvCache::append(std::span<const KvChunk> chunks) {
  for (const KvChunk& chunk : chunks) check_chunk(chunk);
  check_room(chunks);
  // No errors below this point. Allocations that may fail come first.
  for (const KvChunk& chunk : chunks) {
    Sequence& sequence = at("KvCache::append", chunk.sequence);
    const auto pages = static_cast<size_t>(divide_up(sequence.length + chunk.k.size(0), kPageKeys));
    if (pages > sequence.pages.capacity()) sequence.pages.reserve(std::max(pages, 2 * sequence.pages.capacity()));
  }
  for (const KvChunk& chunk : chunks) make_room(at("KvCache::append", chunk.sequence), chunk.k.size(0));
  for (const KvChunk& chunk : chunks) store(chunk);
}

// Allocates pages for `keys` more keys; the last page is not shared.
void KvCache::make_room(Sequence& sequence, int64_t keys) {
  if (keys == 0) return;
  if (shares_last(sequence, 0)) {
    int32_t& last = sequence.pages.back();
    const int32_t copy = take_page();
    copy_page(layout_, last, copy, sequence.length % kPageKeys);
    --users_[static_cast<size_t>(last)];
    last = copy;
  }
  const auto pages = static_cast<size_t>(divide_up(sequence.length + keys, kPageKeys));
  while (sequence.pages.size() < pages) sequence.pages.push_back(take_page());
}

void KvCache::store(const KvChunk& chunk) {
  Sequence& sequence = at("KvCache::append", chunk.sequence);
  const int64_t keys = chunk.k.size(0);
  if (keys == 0) return;
  const int64_t begin = sequence.length;
  const int64_t first_page = begin / kPageKeys;
  const int64_t pages = divide_up(begin + keys, kPageKeys) - first_page;
  dispatch([&]<Isa isa>() {
    const auto store_page = [&](int64_t task) {
      const int64_t head = task / pages;
      const int64_t page = first_page + task % pages;
      const int64_t from = std::max(begin, page * kPageKeys);
      const int64_t to = std::min(begin + keys, (page + 1) * kPageKeys);
      const KvRows rows{&chunk.k(from - begin, head, 0),
                        &chunk.v(from - begin, head, 0),
                        chunk.k.stride(0),
                        chunk.v.stride(0),
                        from - page * kPageKeys,
                        to - from};
      store_rows<isa>(layout_, head, sequence.pages[static_cast<size_t>(page)], rows);
    };
    constexpr int64_t kFewKeys = 8;  // not worth waking threads for
    const int64_t tasks = layout_.kv_heads * pages;
    if (keys > kFewKeys) return parallel_for(tasks, [&](int64_t task, int) { store_page(task); });
    for (int64_t task = 0; task < tasks; ++task) store_page(task);
  });
  sequence.length += keys;
}

int32_t KvCache::take_page() {
  const int32_t page = free_.back();
  free_.pop_back();
  users_[static_cast<size_t>(page)] = 1;
  return page;
}

// Releases all pages but the first `kept`, the last one first: it is the next to be reused.
void KvCache::release_pages(Sequence& sequence, size_t kept) {
  while (sequence.pages.size() > kept) {
    const int32_t page = sequence.pages.back();
    sequence.pages.pop_back();
    if (--users_[static_cast<size_t>(page)] == 0) free_.push_back(page);
  }
}

}  // namespace heed
