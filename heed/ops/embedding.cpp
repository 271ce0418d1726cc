#include "heed/ops/embedding.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "heed/ops/embedding_kernel.h"
#include "heed/ops/rows.h"

namespace heed {
namespace {

void check_ids(const char* function, const View<const int64_t, 1>& ids, int64_t rows) {
  check_view(function, "ids", ids);
  for (int64_t n = 0; n < ids.size(0); ++n) {
    check(ids(n) >= 0 && ids(n) < rows, function, "the id at position ", n, " is ", ids(n), ", but the table has ",
          rows, " rows; ids are in 0 … V-1");
  }
}

void check_positions(const char* function, const char* name, const View<const float, 2>& positions,
                     const Shape<2>& y_shape) {
  check_rows(function, name, positions, {positions.size(0), y_shape[1]});
  check(positions.size(0) > 0 || y_shape[0] == 0, function, name, " has no rows for ", y_shape[0], " tokens");
}

// One token, in the bucket of its id.
struct Occurrence {
  int64_t id;
  int64_t token;
};

// The tokens by id: bucket b holds those whose id is b modulo the number of buckets, in any order.
class Buckets {
 public:
  Buckets(Arena& arena, const View<const int64_t, 1>& ids, std::optional<int64_t> skipped)
      : count_(bucket_count(ids.size(0))),
        ends_(arena.take<int64_t>(count_)),
        occurrences_(arena.take<Occurrence>(ids.size(0))) {
    std::fill_n(ends_, count_, 0);
    const auto for_each_counted = [&](auto visit) {
      for (int64_t n = 0; n < ids.size(0); ++n) {
        if (ids(n) != skipped) visit(n, ends_[ids(n) & (count_ - 1)]);
      }
    };
    for_each_counted([](int64_t, int64_t& size) { ++size; });
    int64_t begin = 0;
    for (int64_t b = 0; b < count_; ++b) begin += std::exchange(ends_[b], begin);
    for_each_counted([&](int64_t n, int64_t& end) { occurrences_[end++] = {ids(n), n}; });
  }

  int64_t count() const { return count_; }
  // Where the bucket's tokens are among those of all buckets.
  int64_t begin(int64_t bucket) const { return bucket == 0 ? 0 : ends_[bucket - 1]; }
  int64_t end(int64_t bucket) const { return ends_[bucket]; }

  // Its tokens sorted by id, those of an id in order. Buckets may be sorted at the same time.
  const Occurrence* sorted(int64_t bucket) const {
    const auto before = [](const Occurrence& a, const Occurrence& b) {
      return a.id != b.id ? a.id < b.id : a.token < b.token;
    };
    std::sort(occurrences_ + begin(bucket), occurrences_ + end(bucket), before);
    return occurrences_;
  }

 private:
  // About 32 tokens a bucket: a task of some microseconds, in which sorting is cheap. A power of two.
  static int64_t bucket_count(int64_t tokens) {
    return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::clamp<int64_t>(tokens / 32, 1, 4096))));
  }

  int64_t count_;
  int64_t* ends_;
  Occurrence* occurrences_;
};

// A task owns the table rows of a bucket, so no two tasks write to the same row.
void add_to_table(const View<const int64_t, 1>& ids, const View<const float, 2>& d_y, float scale,
                  const EmbeddingGradients& gradients, Arena& arena) {
  const Buckets buckets(arena, ids, gradients.padding_idx);
  const auto** const rows = arena.take<const float*>(ids.size(0));
  dispatch([&]<Isa isa>() {
    parallel_for(buckets.count(), [&](int64_t bucket, int) {
      const Occurrence* const occurrences = buckets.sorted(bucket);
      const int64_t end = buckets.end(bucket);
      for (int64_t first = buckets.begin(bucket); first < end;) {
        const int64_t id = occurrences[first].id;
        int64_t next = first;
        for (; next < end && occurrences[next].id == id; ++next) rows[next] = &d_y(occurrences[next].token, 0);
        embedding_backward_kernel<isa>({rows + first, next - first, d_y.size(1), scale, &gradients.table(id, 0)});
        first = next;
      }
    });
  });
}

void add_to_positions(const View<const float, 2>& d_y, const View<float, 2>& d_positions, Arena& arena) {
  const int64_t tokens = d_y.size(0);
  const int64_t positions = d_positions.size(0);
  const auto** const rows = arena.take<const float*>(tokens);
  // The first `longer` positions have one token more than the others.
  const int64_t items = tokens / positions;
  const int64_t longer = tokens % positions;
  dispatch([&]<Isa isa>() {
    parallel_for(std::min(positions, tokens), [&](int64_t t, int) {
      const auto** const first = rows + t * items + std::min(t, longer);
      int64_t count = 0;
      for (int64_t n = t; n < tokens; n += positions) first[count++] = &d_y(n, 0);
      embedding_backward_kernel<isa>({first, count, d_y.size(1), 1.0F, &d_positions(t, 0)});
    });
  });
}

}  // namespace

void embedding_forward(View<const int64_t, 1> ids, const EmbeddingTable& table, View<float, 2> y) {
  constexpr const char* kName = "embedding_forward";
  const auto& [rows, positions, scale] = table;
  check_rows(kName, "table", rows, rows.shape());
  check_rows(kName, "y", y, {ids.size(0), rows.size(1)});
  check_apart(kName, "y", y, "table", rows);
  const bool has_positions = positions.data() != nullptr;
  if (has_positions) {
    check_positions(kName, "positions", positions, y.shape());
    check_apart(kName, "y", y, "positions", positions);
  }
  check_ids(kName, ids, rows.size(0));
  for_each_range_of_rows(y.shape(), [&]<Isa isa>(int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const float* const position = has_positions ? &table.positions(n % table.positions.size(0), 0) : nullptr;
      embedding_forward_kernel<isa>(y.size(1), &table.table(ids(n), 0), table.scale, position, &y(n, 0));
    }
  });
}

void embedding_backward(View<const int64_t, 1> ids, View<const float, 2> d_y, float scale,
                        const EmbeddingGradients& gradients, Arena* arena) {
  constexpr const char* kName = "embedding_backward";
  const auto& [d_table, d_positions, padding_idx] = gradients;
  check_rows(kName, "d_y", d_y, {ids.size(0), d_y.size(1)});
  const bool has_table = d_table.data() != nullptr;
  const bool has_positions = d_positions.data() != nullptr;
  if (has_table) {
    const int64_t rows = d_table.size(0);
    check_rows(kName, "the gradient of the table", d_table, {rows, d_y.size(1)});
    check_apart(kName, "the gradient of the table", d_table, "d_y", d_y);
    check(!padding_idx || (*padding_idx >= 0 && *padding_idx < rows), kName, "padding_idx is ", padding_idx.value_or(0),
          ", but the table has ", rows, " rows");
    check_ids(kName, ids, rows);
  }
  if (has_positions) {
    check_positions(kName, "the gradient of the positions", d_positions, d_y.shape());
    check_apart(kName, "the gradient of the positions", d_positions, "d_y", d_y);
  }
  if (d_y.count() == 0) return;
  CallArena scratch(arena);
  if (has_table) add_to_table(ids, d_y, scale, gradients, *scratch);
  if (has_positions) add_to_positions(d_y, d_positions, *scratch);
}

}  // namespace heed
