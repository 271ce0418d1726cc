// Mask: defines whether query i may see key j. Never a bare bool array: `keep` and `block` name its polarity.
//
//     Mask m = Mask::causal() & Mask::lengths({7, 5});
//
// A copy shares what it holds, which never changes: copying a mask allocates nothing.
// Letters as everywhere: B batch, H query heads, Tq and Tk query and key length.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "heed/core/view.h"

namespace heed {

// The sizes a mask is applied to.
struct MaskSizes {
  int64_t batch = 0;
  int64_t heads = 0;
  int64_t t_q = 0;
  int64_t t_k = 0;
};

// Rejects lengths beyond the kernels' index range, and more rows or keys, over all heads, than fit in memory.
void check_lengths(const char* function, const MaskSizes& sizes);

// How queries are aligned with keys: query i has position offset + i, key j has position j.
class QueryPositions {
 public:
  // Unstated: valid only if Tq == Tk (offset 0), otherwise an Error.
  QueryPositions() = default;
  // Offset 0: the first query is at the first key.
  static QueryPositions top_left();
  // Offset Tk - Tq: the last query is at the last key, as with a cache.
  static QueryPositions bottom_right();
  // One offset for all items, or one per batch item.
  static QueryPositions from(int64_t offset);
  static QueryPositions from(std::vector<int64_t> offsets);

  // Throws an Error that names `function` and `part` unless the positions are stated for these sizes.
  void check_fits(const char* function, const char* part, const MaskSizes& sizes) const;

  // False for the default.
  bool is_stated() const { return kind_ != Kind::unstated; }

  // The offset of item b.
  int64_t offset(const MaskSizes& sizes, int64_t b) const;

 private:
  static constexpr int64_t kMostPosition = int64_t{1} << 40;
  enum class Kind { unstated, top_left, bottom_right, given };
  Kind kind_ = Kind::unstated;
  std::vector<int64_t> offsets_;
};

// Keys begin … end-1; empty if end <= begin.
struct KeyRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// Queries [q_begin, q_end) and keys [k_begin, k_end) of one item: a document, or the whole item. Queries of a segment
// see no key outside it.
struct Segment {
  int64_t q_begin = 0;
  int64_t q_end = 0;
  int64_t k_begin = 0;
  int64_t k_end = 0;
};

// The keys that one item's queries may see, before dense parts: for query q, keys
//     max(begin, q + begin_shift) … min(end, q + end_shift) - 1.
// Causal masks, windows and lengths have this form, and so does every `&` of them.
struct KeyRangeRule {
  int64_t begin = 0;
  int64_t begin_shift = std::numeric_limits<int64_t>::min() / 2;
  int64_t end = 0;
  int64_t end_shift = std::numeric_limits<int64_t>::max() / 2;

  KeyRange at(int64_t q) const { return {std::max(begin, q + begin_shift), std::min(end, q + end_shift)}; }

  KeyRangeRule within(const Segment& segment) const {
    return {std::max(begin, segment.k_begin), begin_shift, std::min(end, segment.k_end), end_shift};
  }
};

class Mask {
 public:
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

  // Every key is visible.
  Mask() = default;

  // Visible if the key's position <= the query's position.
  static Mask causal(QueryPositions positions = {});
  // Visible if position - left <= key's position <= position + right. kUnlimited leaves a side open.
  static Mask window(int64_t left, int64_t right, QueryPositions positions = {});
  // Item b sees keys 0 … lengths[b]-1. One length per batch item.
  static Mask lengths(std::vector<int64_t> lengths);
  // Packed documents: keys starts[n] … starts[n+1]-1 are document n. A query belongs to the document that contains its
  // position (the first one if it is before the first key, the last one if it is past the last key) and sees no other.
  // One list of starts for all items, or one per item; each begins with 0 and increases.
  static Mask documents(std::vector<int64_t> starts, QueryPositions positions = {});
  static Mask documents_by_item(std::vector<std::vector<int64_t>> starts, QueryPositions positions = {});
  // True means visible (keep) or hidden (block). Shapes [Tq,Tk], [B,Tq,Tk] or [B or 1, H or 1, Tq, Tk]. The values are
  // not copied and must outlive the mask.
  static Mask keep(View<const bool, 2> visible);
  static Mask keep(View<const bool, 3> visible);
  static Mask keep(View<const bool, 4> visible);
  static Mask block(View<const bool, 2> hidden);
  static Mask block(View<const bool, 3> hidden);
  static Mask block(View<const bool, 4> hidden);

  // Visible if visible in both. At most one may have documents.
  friend Mask operator&(const Mask& a, const Mask& b);

  // Throws an Error that names `function` unless the sizes are supported and the mask fits them.
  void check_fits(const char* function, const MaskSizes& sizes) const;

  // Whether query q of head h of item b sees key k. This is the definition; everything else agrees with it.
  bool visible(const MaskSizes& sizes, int64_t b, int64_t h, int64_t q, int64_t k) const;

  // The exact number of visible quadruples (b, h, q, k).
  int64_t visible_pairs(const MaskSizes& sizes) const;

  // The keys of item b that are visible before documents and dense parts.
  KeyRangeRule key_range_rule(const MaskSizes& sizes, int64_t b) const;

  // has_positions(): a part of the mask defines the queries' positions. check_positions() throws an Error that names
  // `function` if parts differ; query_offset() is the position of query 0 of item b.
  bool has_positions() const { return !parts().bands.empty() || !parts().documents.empty(); }
  void check_positions(const char* function, const MaskSizes& sizes) const;
  int64_t query_offset(const MaskSizes& sizes, int64_t b) const;

  // The number of segments of item b: its documents, or 1.
  int64_t segment_count(int64_t b) const;

  // Document n of item b, or the whole item. Every query and every key is in exactly one.
  Segment segment(const MaskSizes& sizes, int64_t b, int64_t n) const;

  // A dense part.
  struct Dense {
    View<const bool, 4> values;  // sizes of 1 are broadcast
    bool keep = true;

    const bool* row(int64_t b, int64_t h, int64_t q) const {
      return &values(values.size(0) == 1 ? 0 : b, values.size(1) == 1 ? 0 : h, q, 0);
    }
  };
  const std::vector<Dense>& dense() const { return parts().dense; }
  // Do all dense parts show the pair?
  bool dense_shows(int64_t b, int64_t h, int64_t q, int64_t k) const {
    return std::all_of(dense().begin(), dense().end(),
                       [&](const Dense& part) { return part.row(b, h, q)[k * part.values.stride(3)] == part.keep; });
  }

  // True if the mask hides nothing for any sizes.
  bool is_none() const { return parts_ == nullptr; }

  // "causal & lengths", as shown in plans; "none" for no mask.
  std::string description() const;

 private:
  // Causal and window: position - left <= key <= position + right.
  struct Band {
    int64_t left = kUnlimited;
    int64_t right = kUnlimited;
    QueryPositions positions;
    std::string name;
  };

  struct Parts {
    std::vector<Band> bands{};
    std::vector<std::vector<int64_t>> lengths{};    // one list [B] per lengths part
    std::vector<std::vector<int64_t>> documents{};  // one list, or one per item
    QueryPositions document_positions{};
    std::vector<Dense> dense{};
  };

  explicit Mask(Parts parts) : parts_(std::make_shared<const Parts>(std::move(parts))) {}
  static Mask from_dense(View<const bool, 4> values, bool keep) { return Mask({.dense = {{values, keep}}}); }
  const Parts& parts() const { return parts_ == nullptr ? kNoParts : *parts_; }
  const std::vector<int64_t>& starts(int64_t b) const;

  static const Parts kNoParts;
  std::shared_ptr<const Parts> parts_;  // null: every key is visible
};

}  // namespace heed
