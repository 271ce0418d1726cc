// What insight says of an attention problem, in memory of its own.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "heed/attention/insight.h"
#include "tests/support/attention_case.h"

namespace heed::test {

inline constexpr AttentionStep kSteps[] = {AttentionStep::scores,  AttentionStep::scaled, AttentionStep::capped,
                                           AttentionStep::biased,  AttentionStep::masked, AttentionStep::weights,
                                           AttentionStep::dropped, AttentionStep::heads};

// A tile of one step, row-major; what is not written is a number that no test expects.
struct StepTile {
  StepTile(const AttentionCase& c, AttentionStep step, const TilePlace& place, int64_t rows, int64_t columns)
      : values(static_cast<size_t>(rows * columns), -777.0F), view(values.data(), {rows, columns}) {
    attention_tile(c.inputs(), c.options, c.rows, step, place, view);
  }

  std::vector<float> values;
  View<float, 2> view;
};

// The whole matrix of a step of one head.
inline StepTile whole_step(const AttentionCase& c, AttentionStep step, int64_t b, int64_t head) {
  return {c, step, {b, head, 0, 0}, c.sizes.t_q, step == AttentionStep::heads ? c.sizes.d_v : c.sizes.t_k};
}

// Everything of rows [q_begin, q_begin + count).
struct RowResults {
  // With sigmoid there is no entropy, and none is asked for.
  RowResults(const AttentionCase& c, int64_t q_begin, int64_t rows, int64_t k) : count(rows), top_k(k) {
    const bool sigmoid = c.options.scores.normaliser == Normaliser::sigmoid;
    const auto all = static_cast<size_t>(c.sizes.batch * c.sizes.heads * rows);
    entropy.assign(all, -777.0F);
    largest.assign(all, -777.0F);
    top_keys.assign(all * static_cast<size_t>(k), -777);
    top_weights.assign(all * static_cast<size_t>(k), -777.0F);
    const Shape<3> shape{c.sizes.batch, c.sizes.heads, rows};
    const Shape<4> top_shape{c.sizes.batch, c.sizes.heads, rows, k};
    views = {{entropy.data(), shape},
             {largest.data(), shape},
             {top_keys.data(), top_shape},
             {top_weights.data(), top_shape}};
    if (sigmoid) views.entropy = {};
    attention_row_insight(c.inputs(), c.options, c.rows, q_begin, views);
  }

  int64_t count;
  int64_t top_k;
  std::vector<float> entropy, largest, top_weights;
  std::vector<int64_t> top_keys;
  RowInsight views;
};

inline std::vector<float> mass_received(const AttentionCase& c) {
  std::vector<float> mass(static_cast<size_t>(c.sizes.batch * c.sizes.heads * c.sizes.t_k), -777.0F);
  attention_mass_received(c.inputs(), c.options, c.rows, {mass.data(), {c.sizes.batch, c.sizes.heads, c.sizes.t_k}});
  return mass;
}

inline std::vector<float> all_weights(const AttentionCase& c) {
  const Shape<4> shape{c.sizes.batch, c.sizes.heads, c.sizes.t_q, c.sizes.t_k};
  std::vector<float> weights(static_cast<size_t>(element_count(shape)), -777.0F);
  attention_weights(c.inputs(), c.options, c.rows, {weights.data(), shape});
  return weights;
}

}  // namespace heed::test
