#include "heed/attention/score_job.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "heed/attention/dropout.h"
#include "heed/core/memory.h"
#include "heed/parallel/parallel_for.h"

namespace heed {
namespace {

// The lists of distances that a call needs: one for all items, or one per item; none if no option needs them.
struct Lists {
  int64_t count = 0;
  int64_t before = 0;  // every query - key is below this,
  int64_t after = 0;   // and every key - query below this
  int64_t heads = 0;

  int64_t length() const { return round_up<int64_t>(before + after + 2 * kScoreMargin, 16); }
};

Lists lists_of(const Problem& problem, const AttentionOptions& options) {
  if (!options.scores.has_positions() || problem.sizes.batch == 0) return {};
  Lists lists{1, problem.sizes.t_q, problem.sizes.t_k, problem.sizes.heads};
  const int64_t first = options.scores.query_offset(problem.sizes, options.mask, 0);
  for (int64_t b = 1; b < problem.sizes.batch; ++b) {
    if (options.scores.query_offset(problem.sizes, options.mask, b) != first) lists.count = problem.sizes.batch;
  }
  return lists;
}

Lists lists_of(const DecodePositions& call, const ScoreOptions& scores) {
  return scores.has_positions() ? Lists{1, call.before, call.after, call.heads} : Lists{};
}

// Calls visit(i, position_k - position_q) for each index i of a list whose query 0 is at position `offset`.
template <class Visit>
void for_each_distance(const PositionBias& positions, int64_t offset, Visit visit) {
  const int64_t sign = positions.lanes == ScoreLanes::queries ? -1 : 1;
  for (int64_t i = 0; i < positions.length; ++i) visit(i, sign * (i - positions.first) - offset);
}

void fill_buckets(const RelativeTable& relative, const PositionBias& positions, int64_t offset, int32_t* buckets) {
  for_each_distance(positions, offset, [&](int64_t i, int64_t distance) {
    // Past max_distance nothing changes, and logarithms are slow.
    const bool beyond = std::abs(distance) > relative.max_distance;
    buckets[i] = beyond && i > 0 ? buckets[i - 1]
                                 : static_cast<int32_t>(relative_bucket(distance, relative.table.size(0),
                                                                        relative.max_distance, relative.bidirectional));
  });
}

// A bias of positions as a float in base 256. Past the range of float it is the largest one: finite stays finite.
float base256_of(double natural) {
  constexpr double kMost = std::numeric_limits<float>::max();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double size = std::abs(natural);
  const double most = size > kMost && size < kInfinity ? std::copysign(kMost, natural) : natural;
  return static_cast<float>(kLog256E * most);
}

// log256 e · (table - slope · |distance|) of one list and head.
void fill_values(const ScoreOptions& scores, const PositionBias& positions, int64_t list, int64_t offset, int64_t head,
                 float* values) {
  const View<const float, 1>& slopes = scores.alibi_slopes;
  const View<const float, 2>& table = scores.relative.table;
  const double slope = slopes.data() == nullptr ? 0.0 : static_cast<double>(slopes(head));
  const int32_t* const buckets = positions.buckets_of(list);
  const int64_t sign = positions.lanes == ScoreLanes::queries ? -1 : 1;
  // Distances count up in small integers, which the compiler turns into vectors.
  constexpr int kBlock = 4096;
  const auto fill = [&](auto learned) {
    for (int64_t begin = 0; begin < positions.length; begin += kBlock) {
      const auto first = static_cast<double>(sign * (begin - positions.first) - offset);
      const auto step = static_cast<double>(sign);
      const auto count = static_cast<int>(std::min<int64_t>(kBlock, positions.length - begin));
      for (int i = 0; i < count; ++i) {
        const double distance = std::abs(first + step * static_cast<double>(i));
        values[begin + i] = base256_of(learned(begin + i) - slope * distance);
      }
    }
  };
  if (buckets == nullptr) return fill([](int64_t) { return 0.0; });
  fill([&](int64_t i) { return static_cast<double>(table(int64_t{buckets[i]}, head)); });
}

// offset_of(list): the position of query 0.
template <class OffsetOf>
PositionBias fill_lists(const ScoreOptions& scores, const Lists& lists, ScoreLanes lanes, Arena& arena,
                        OffsetOf offset_of) {
  PositionBias positions;
  if (lists.count == 0) return positions;
  positions.heads = lists.heads;
  positions.length = lists.length();
  positions.lanes = lanes;
  positions.first = kScoreMargin + (lanes == ScoreLanes::queries ? lists.after : lists.before);
  positions.by_item = lists.count > 1;
  auto* const values = arena.take<float>(lists.count * lists.heads * positions.length);
  positions.values = values;
  const bool has_table = scores.relative.table.data() != nullptr;
  auto* const buckets = has_table ? arena.take<int32_t>(lists.count * positions.length) : nullptr;
  positions.buckets = buckets;
  if (arena.is_dry_run()) return positions;
  for (int64_t list = 0; list < lists.count && has_table; ++list) {
    fill_buckets(scores.relative, positions, offset_of(list), buckets + list * positions.length);
  }
  parallel_for(lists.count * lists.heads, [&](int64_t task, int) {
    const int64_t list = task / lists.heads;
    fill_values(scores, positions, list, offset_of(list), task % lists.heads, values + task * positions.length);
  });
  return positions;
}

// Everything but the position biases.
ScoreJob job_of(const ScoreOptions& scores) {
  ScoreJob job;
  job.sigmoid = scores.normaliser == Normaliser::sigmoid;
  if (scores.soft_cap) {
    job.cap = static_cast<float>(kLog256E * static_cast<double>(*scores.soft_cap));
    job.inverse_cap = static_cast<float>(1.0 / (kLog256E * static_cast<double>(*scores.soft_cap)));
  }
  job.bias = scores.bias;
  job.sinks = scores.sinks;
  if (scores.dropout.probability > 0.0F) {
    job.dropout = &scores.dropout;
    job.kept_scale = static_cast<float>(dropout_scale(scores.dropout));
  }
  if (job.sigmoid || job.sinks.data() != nullptr) job.least_score = -126.0F / kScoreBits;
  job.has_options =
      job.sigmoid || scores.soft_cap || job.bias.data() != nullptr || scores.has_positions() || job.dropout != nullptr;
  job.wide_range = !job.sigmoid && (job.bias.data() != nullptr || scores.has_positions());
  return job;
}

}  // namespace

ScoreJob score_job(const Problem& problem, const AttentionOptions& options, ScoreLanes lanes, Arena& arena) {
  ScoreJob job = job_of(options.scores);
  job.positions = fill_lists(options.scores, lists_of(problem, options), lanes, arena, [&](int64_t list) {
    return options.scores.query_offset(problem.sizes, options.mask, list);
  });
  return job;
}

ScoreJob score_job(const DecodePositions& call, const ScoreOptions& scores, ScoreLanes lanes, Arena& arena) {
  ScoreJob job = job_of(scores);
  job.first_queries = call.first_queries;
  job.positions = fill_lists(scores, lists_of(call, scores), lanes, arena, [](int64_t) { return int64_t{0}; });
  return job;
}

}  // namespace heed
