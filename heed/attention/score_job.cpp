#include "heed/attention/score_job.h"

#include <algorithm>
#include <cstdlib>

#include "heed/attention/dropout.h"
#include "heed/core/memory.h"
#include "heed/parallel/parallel_for.h"

namespace heed {
namespace {

// Lanes past the last query or key are read, not used: lists are longer by a panel at both ends.
constexpr int64_t kMargin = 64;

struct Sizes {
  int64_t items = 0;   // lists: one, or one an item
  int64_t length = 0;  // of a list
};

Sizes sizes_of(const Problem& problem, const AttentionOptions& options) {
  if (!options.scores.has_positions() || problem.sizes.batch == 0) return {};
  Sizes sizes{1, round_up<int64_t>(problem.sizes.t_q + problem.sizes.t_k + 2 * kMargin, 16)};
  const int64_t first = options.scores.query_offset(problem.sizes, options.mask, 0);
  for (int64_t b = 1; b < problem.sizes.batch; ++b) {
    if (options.scores.query_offset(problem.sizes, options.mask, b) != first) sizes.items = problem.sizes.batch;
  }
  return sizes;
}

// Calls visit(i, position_k - position_q) for each place i of the list of item b.
template <class Visit>
void for_each_distance(const Problem& problem, const AttentionOptions& options, int64_t b,
                       const PositionBias& positions, Visit visit) {
  const int64_t offset = options.scores.query_offset(problem.sizes, options.mask, b);
  const int64_t sign = positions.lanes == ScoreLanes::queries ? -1 : 1;
  for (int64_t i = 0; i < positions.length; ++i) visit(i, sign * (i - positions.first) - offset);
}

void fill_buckets(const Problem& problem, const AttentionOptions& options, int64_t b, const PositionBias& positions,
                  int32_t* buckets) {
  const RelativeTable& relative = options.scores.relative;
  for_each_distance(problem, options, b, positions, [&](int64_t i, int64_t distance) {
    // Past max_distance nothing changes, and logarithms are slow.
    const bool far = std::abs(distance) > relative.max_distance;
    buckets[i] = far && i > 0 ? buckets[i - 1]
                              : static_cast<int32_t>(relative_bucket(distance, relative.table.size(0),
                                                                     relative.max_distance, relative.bidirectional));
  });
}

// log2 e · (table - slope · |distance|) of one item and head.
void fill_values(const Problem& problem, const AttentionOptions& options, int64_t b, int64_t head,
                 const PositionBias& positions, float* values) {
  const View<const float, 1>& slopes = options.scores.alibi_slopes;
  const View<const float, 2>& table = options.scores.relative.table;
  const double slope = slopes.data() == nullptr ? 0.0 : static_cast<double>(slopes(head));
  const int32_t* const buckets = positions.buckets_of(b);
  for_each_distance(problem, options, b, positions, [&](int64_t i, int64_t distance) {
    const double learned = buckets == nullptr ? 0.0 : static_cast<double>(table(int64_t{buckets[i]}, head));
    values[i] = static_cast<float>(kLog2E * (learned - slope * static_cast<double>(std::abs(distance))));
  });
}

}  // namespace

int64_t score_job_floats(const Problem& problem, const AttentionOptions& options) {
  const auto [items, length] = sizes_of(problem, options);
  return items * length * (problem.sizes.heads + 1);
}

ScoreJob score_job(const Problem& problem, const AttentionOptions& options, ScoreLanes lanes, float* floats) {
  const ScoreOptions& scores = options.scores;
  ScoreJob job;
  job.sigmoid = scores.normaliser == Normaliser::sigmoid;
  if (scores.soft_cap) {
    job.cap = static_cast<float>(kLog2E * static_cast<double>(*scores.soft_cap));
    job.inverse_cap = static_cast<float>(1.0 / (kLog2E * static_cast<double>(*scores.soft_cap)));
  }
  job.bias = scores.bias;
  job.sinks = scores.sinks;
  if (scores.dropout.probability > 0.0F) {
    job.dropout = &scores.dropout;
    job.kept_scale = static_cast<float>(dropout_scale(scores.dropout));
  }
  const auto [items, length] = sizes_of(problem, options);
  job.on_tiles = job.sigmoid || scores.soft_cap || job.bias.data() != nullptr || items > 0 || job.dropout != nullptr;
  job.far = !job.sigmoid && (job.bias.data() != nullptr || items > 0);
  if (items == 0) return job;

  PositionBias& positions = job.positions;
  positions.heads = problem.sizes.heads;
  positions.length = length;
  positions.lanes = lanes;
  positions.first = kMargin + (lanes == ScoreLanes::queries ? problem.sizes.t_k : problem.sizes.t_q);
  positions.by_item = items > 1;
  auto* buckets = reinterpret_cast<int32_t*>(floats + items * positions.heads * length);
  positions.values = floats;
  positions.buckets = scores.relative.table.data() == nullptr ? nullptr : buckets;
  for (int64_t b = 0; b < items && positions.buckets != nullptr; ++b) {
    fill_buckets(problem, options, b, positions, buckets + b * length);
  }
  parallel_for(items * positions.heads, [&](int64_t task, int) {
    fill_values(problem, options, task / positions.heads, task % positions.heads, positions,
                floats + task * positions.length);
  });
  return job;
}

}  // namespace heed
