#include "heed/attention/mask.h"

#include "heed/core/error.h"
#include "heed/core/extent.h"

namespace heed {
namespace {

// Offset of the queries of item b. check_fits() has rejected the undefined cases.
int64_t offset_of(const std::vector<int64_t>& offsets, int64_t b) {
  return offsets[offsets.size() == 1 ? 0 : static_cast<size_t>(b)];
}

// a + b for b far from the limits, where a may be kUnlimited.
int64_t add_saturating(int64_t a, int64_t b) {
  constexpr int64_t kFar = std::numeric_limits<int64_t>::max() / 2;
  return a >= kFar ? kFar : std::min(a + b, kFar);
}

template <int N>
View<const bool, 4> with_leading_ones(View<const bool, N> values) {
  Shape<4> shape{1, 1, 1, 1};
  Shape<4> strides{};
  // [Tq,Tk] and [B,Tq,Tk] lack the heads.
  for (int i = 0; i < N; ++i) {
    const auto to = static_cast<size_t>(N == 3 && i == 0 ? 0 : i + 4 - N);
    shape[to] = values.size(i);
    strides[to] = values.stride(i);
  }
  return {values.data(), shape, strides};
}

}  // namespace

void check_lengths(const char* function, const MaskSizes& sizes) {
  check(sizes.t_q <= kMostLength && sizes.t_k <= kMostLength, function, "lengths above 2^30: Tq = ", sizes.t_q,
        ", Tk = ", sizes.t_k);
  check_sizes(function, "[B, H, Tq]", Shape<3>{sizes.batch, sizes.heads, sizes.t_q});
  check_sizes(function, "[B, H, Tk]", Shape<3>{sizes.batch, sizes.heads, sizes.t_k});
}

QueryPositions QueryPositions::top_left() {
  QueryPositions positions;
  positions.kind_ = Kind::top_left;
  return positions;
}

QueryPositions QueryPositions::bottom_right() {
  QueryPositions positions;
  positions.kind_ = Kind::bottom_right;
  return positions;
}

QueryPositions QueryPositions::from(int64_t offset) { return from(std::vector<int64_t>{offset}); }

QueryPositions QueryPositions::from(std::vector<int64_t> offsets) {
  QueryPositions positions;
  positions.kind_ = Kind::given;
  positions.offsets_ = std::move(offsets);
  return positions;
}

void QueryPositions::check_fits(const char* function, const char* part, const MaskSizes& sizes) const {
  if (kind_ == Kind::unstated) {
    check(sizes.t_q == sizes.t_k, function, part, " with Tq = ", sizes.t_q, " and Tk = ", sizes.t_k,
          " needs the queries' positions: give QueryPositions::bottom_right(), top_left() or from(offset)");
  }
  if (kind_ != Kind::given) return;
  const auto count = static_cast<int64_t>(offsets_.size());
  check(count == 1 || count == sizes.batch, function, part, " has ", count, " offsets for a batch of ", sizes.batch,
        "; give one, or one for each item");
  for (const int64_t offset : offsets_) {
    check(offset >= -kMostPosition && offset <= kMostPosition, function, part, " has an offset of ", offset,
          "; it must be within ±", kMostPosition);
  }
}

int64_t QueryPositions::offset(const MaskSizes& sizes, int64_t b) const {
  if (kind_ == Kind::given) return offset_of(offsets_, b);
  return kind_ == Kind::bottom_right ? sizes.t_k - sizes.t_q : 0;
}

const Mask::Parts Mask::kNoParts;

Mask Mask::causal(QueryPositions positions) {
  return Mask({.bands = {{kUnlimited, 0, std::move(positions), "causal"}}});
}

Mask Mask::window(int64_t left, int64_t right, QueryPositions positions) {
  check(left >= 0 && right >= 0, "Mask::window", "left = ", left, ", right = ", right,
        "; both must be 0 or more (Mask::kUnlimited leaves a side open)");
  const auto side = [](int64_t n) { return n == kUnlimited ? std::string("all") : std::to_string(n); };
  return Mask({.bands = {{left, right, std::move(positions), "window(" + side(left) + ", " + side(right) + ")"}}});
}

Mask Mask::lengths(std::vector<int64_t> lengths) { return Mask({.lengths = {std::move(lengths)}}); }

Mask Mask::documents(std::vector<int64_t> starts, QueryPositions positions) {
  return documents_by_item(std::vector<std::vector<int64_t>>{std::move(starts)}, std::move(positions));
}

Mask Mask::documents_by_item(std::vector<std::vector<int64_t>> starts, QueryPositions positions) {
  check(!starts.empty(), "Mask::documents", "no list of starts");
  for (const std::vector<int64_t>& list : starts) {
    check(!list.empty() && list.front() == 0, "Mask::documents", "starts ", list, " must begin with 0, the first key");
    for (size_t i = 1; i < list.size(); ++i) {
      check(list[i] > list[i - 1], "Mask::documents", "starts ", list, " are out of order: ", list[i], " comes after ",
            list[i - 1], ", but each document must begin after the one before it");
    }
  }
  return Mask({.documents = std::move(starts), .document_positions = std::move(positions)});
}

Mask Mask::keep(View<const bool, 2> visible) { return from_dense(with_leading_ones(visible), true); }
Mask Mask::keep(View<const bool, 3> visible) { return from_dense(with_leading_ones(visible), true); }
Mask Mask::keep(View<const bool, 4> visible) { return from_dense(visible, true); }
Mask Mask::block(View<const bool, 2> hidden) { return from_dense(with_leading_ones(hidden), false); }
Mask Mask::block(View<const bool, 3> hidden) { return from_dense(with_leading_ones(hidden), false); }
Mask Mask::block(View<const bool, 4> hidden) { return from_dense(hidden, false); }

Mask operator&(const Mask& a, const Mask& b) {
  if (a.is_none() || b.is_none()) return a.is_none() ? b : a;
  Mask::Parts both = a.parts();
  const Mask::Parts& more = b.parts();
  check(both.documents.empty() || more.documents.empty(), "Mask::operator&",
        "both masks have documents; give the starts of all documents to one of them");
  both.bands.insert(both.bands.end(), more.bands.begin(), more.bands.end());
  both.lengths.insert(both.lengths.end(), more.lengths.begin(), more.lengths.end());
  both.dense.insert(both.dense.end(), more.dense.begin(), more.dense.end());
  if (!more.documents.empty()) {
    both.documents = more.documents;
    both.document_positions = more.document_positions;
  }
  return Mask(std::move(both));
}

void Mask::check_fits(const char* function, const MaskSizes& sizes) const {
  check_lengths(function, sizes);
  for (const Band& band : parts().bands) band.positions.check_fits(function, band.name.c_str(), sizes);
  for (const std::vector<int64_t>& list : parts().lengths) {
    check(static_cast<int64_t>(list.size()) == sizes.batch, function, "mask has ", list.size(),
          " lengths for a batch of ", sizes.batch, "; give one for each item");
    for (const int64_t length : list) {
      check(length >= 0 && length <= sizes.t_k, function, "mask has a length of ", length,
            " but there are Tk = ", sizes.t_k, " keys; lengths must be in 0 … Tk");
    }
  }
  if (!parts().documents.empty()) {
    parts().document_positions.check_fits(function, "documents", sizes);
    const auto count = static_cast<int64_t>(parts().documents.size());
    check(count == 1 || count == sizes.batch, function, "mask has ", count, " lists of documents for a batch of ",
          sizes.batch, "; give one, or one for each item");
    for (const std::vector<int64_t>& list : parts().documents) {
      check(list.back() == 0 || list.back() < sizes.t_k, function, "the last document begins at key ", list.back(),
            " but there are Tk = ", sizes.t_k, " keys");
    }
  }
  for (const Dense& part : parts().dense) {
    const Shape<4>& shape = part.values.shape();
    const bool fits = (shape[0] == 1 || shape[0] == sizes.batch) && (shape[1] == 1 || shape[1] == sizes.heads) &&
                      shape[2] == sizes.t_q && shape[3] == sizes.t_k;
    check(fits, function, "dense mask of shape ", shape,
          " does not fit [B or 1, H or 1, Tq, Tk] with B = ", sizes.batch, ", H = ", sizes.heads, ", Tq = ", sizes.t_q,
          ", Tk = ", sizes.t_k);
    check_view(function, "dense mask", part.values);
  }
}

const std::vector<int64_t>& Mask::starts(int64_t b) const {
  return parts().documents[parts().documents.size() == 1 ? 0 : static_cast<size_t>(b)];
}

int64_t Mask::query_offset(const MaskSizes& sizes, int64_t b) const {
  return (parts().bands.empty() ? parts().document_positions : parts().bands.front().positions).offset(sizes, b);
}

void Mask::check_positions(const char* function, const MaskSizes& sizes) const {
  for (int64_t b = 0; b < sizes.batch; ++b) {
    const int64_t first = query_offset(sizes, b);
    const auto check_same = [&](const QueryPositions& positions) {
      check(
          positions.offset(sizes, b) == first, function, "parts of the mask ", [this] { return description(); },
          " place query 0 of item ", b, " at ", first, " and at ", positions.offset(sizes, b),
          "; say which one counts: give the score options' positions");
    };
    for (const Band& band : parts().bands) check_same(band.positions);
    if (!parts().documents.empty()) check_same(parts().document_positions);
  }
}

int64_t Mask::segment_count(int64_t b) const {
  return parts().documents.empty() ? 1 : static_cast<int64_t>(starts(b).size());
}

Segment Mask::segment(const MaskSizes& sizes, int64_t b, int64_t n) const {
  if (parts().documents.empty()) return {0, sizes.t_q, 0, sizes.t_k};
  const std::vector<int64_t>& list = starts(b);
  const auto index = static_cast<size_t>(n);
  const bool last = index + 1 == list.size();
  const int64_t offset = parts().document_positions.offset(sizes, b);
  const auto query_at = [&](int64_t position) { return std::clamp<int64_t>(position - offset, 0, sizes.t_q); };
  return {index == 0 ? 0 : query_at(list[index]), last ? sizes.t_q : query_at(list[index + 1]), list[index],
          last ? sizes.t_k : list[index + 1]};
}

KeyRangeRule Mask::key_range_rule(const MaskSizes& sizes, int64_t b) const {
  KeyRangeRule rule;
  rule.end = sizes.t_k;
  for (const Band& band : parts().bands) {
    const int64_t offset = band.positions.offset(sizes, b);
    if (band.left != kUnlimited) rule.begin_shift = std::max(rule.begin_shift, -add_saturating(band.left, -offset));
    if (band.right != kUnlimited) rule.end_shift = std::min(rule.end_shift, add_saturating(band.right, offset + 1));
  }
  for (const std::vector<int64_t>& list : parts().lengths) rule.end = std::min(rule.end, list[static_cast<size_t>(b)]);
  return rule;
}

bool Mask::visible(const MaskSizes& sizes, int64_t b, int64_t h, int64_t q, int64_t k) const {
  const KeyRange range = key_range_rule(sizes, b).at(q);
  if (k < range.begin || k >= range.end) return false;
  bool in_document = false;
  for (int64_t n = 0; n < segment_count(b) && !in_document; ++n) {
    const Segment at = segment(sizes, b, n);
    in_document = q >= at.q_begin && q < at.q_end && k >= at.k_begin && k < at.k_end;
  }
  return in_document && dense_shows(b, h, q, k);
}

int64_t Mask::visible_pairs(const MaskSizes& sizes) const {
  check_lengths("Mask::visible_pairs", sizes);
  int64_t pairs = 0;
  if (sizes.heads == 0 || sizes.t_q == 0 || sizes.t_k == 0) return pairs;
  for (int64_t b = 0; b < sizes.batch; ++b) {
    const KeyRangeRule rule = key_range_rule(sizes, b);
    for (int64_t n = 0; n < segment_count(b); ++n) {
      const Segment at = segment(sizes, b, n);
      for (int64_t q = at.q_begin; q < at.q_end; ++q) {
        const KeyRange range = rule.at(q);
        const int64_t begin = std::max(range.begin, at.k_begin);
        const int64_t end = std::min(range.end, at.k_end);
        if (parts().dense.empty()) {
          // 2^48 rows of 2^30 keys are more than int64_t counts.
          const bool counted = !__builtin_add_overflow(pairs, sizes.heads * std::max<int64_t>(end - begin, 0), &pairs);
          check(counted, "Mask::visible_pairs", "more than 2^63 pairs of ", sizes.t_q, " queries and ", sizes.t_k,
                " keys are visible, in a batch of ", sizes.batch, " with ", sizes.heads, " heads");
          continue;
        }
        for (int64_t h = 0; h < sizes.heads; ++h) {
          for (int64_t k = begin; k < end; ++k) pairs += dense_shows(b, h, q, k) ? 1 : 0;
        }
      }
    }
  }
  return pairs;
}

std::string Mask::description() const {
  std::string text;
  const auto add = [&text](const std::string& part) { text += text.empty() ? part : " & " + part; };
  for (const Band& band : parts().bands) add(band.name);
  for (size_t i = 0; i < parts().lengths.size(); ++i) add("lengths");
  if (!parts().documents.empty()) add("documents");
  for (const Dense& part : parts().dense) add(part.keep ? "keep" : "block");
  return text.empty() ? "none" : text;
}

}  // namespace heed
