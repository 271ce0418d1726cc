#include "heed/attention/score_options.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "heed/core/error.h"
#include "heed/core/extent.h"

namespace heed {
namespace {

constexpr int64_t kMostBuckets = int64_t{1} << 24;
constexpr int64_t kMostHeads = int64_t{1} << 20;

// Buckets that count single steps, on one side.
int64_t exact_buckets(int64_t buckets, bool bidirectional) { return buckets / (bidirectional ? 4 : 2); }

void check_relative(const char* function, const RelativeTable& relative, int64_t heads) {
  check_extent(function, "relative table", relative.table);
  const int64_t buckets = relative.table.size(0);
  const int64_t exact = exact_buckets(buckets, relative.bidirectional);
  check(buckets <= kMostBuckets, function, "relative table has shape ", relative.table.shape(), "; give at most ",
        kMostBuckets, " buckets");
  check(relative.table.size(1) == heads, function, "relative table has shape ", relative.table.shape(),
        ", expected [buckets, H] with H = ", heads);
  check(exact >= 1 && (!relative.bidirectional || buckets % 2 == 0), function, "relative table has ", buckets,
        " buckets; ", relative.bidirectional ? "bidirectional ones are even and at least 4" : "give at least 2");
  check(relative.max_distance > exact, function, "max_distance is ", relative.max_distance, "; it must be above ",
        exact, ", the distances that have a bucket of their own among ", buckets, " buckets");
}

void check_bias(const char* function, View<const float, 4> bias, const MaskSizes& sizes) {
  check_extent(function, "bias", bias);
  const Shape<4>& shape = bias.shape();
  const bool fits = (shape[0] == 1 || shape[0] == sizes.batch) && (shape[1] == 1 || shape[1] == sizes.heads) &&
                    shape[2] == sizes.t_q && shape[3] == sizes.t_k;
  check(fits, function, "bias of shape ", shape, " does not fit [B or 1, H or 1, Tq, Tk] with B = ", sizes.batch,
        ", H = ", sizes.heads, ", Tq = ", sizes.t_q, ", Tk = ", sizes.t_k);
  check(shape[3] <= 1 || bias.stride(3) == 1, function, "bias has strides ", bias.strides(),
        "; its last dimension must be contiguous (stride 1): copy it first");
}

}  // namespace

void ScoreOptions::check_fits(const char* function, const MaskSizes& sizes, const Mask& mask) const {
  check_sizes(function, sizes);
  if (!has_positions()) return;
  if (positions.is_stated() || !mask.has_positions()) {
    positions.check_fits(function, "ALiBi or a relative table", sizes);
  } else {
    mask.check_positions(function, sizes);
  }
}

void ScoreOptions::check_sizes(const char* function, const MaskSizes& sizes) const {
  if (soft_cap) {
    // The kernels divide by cap · log256 e.
    check(*soft_cap >= 1e-30F && *soft_cap <= 1e30F, function, "soft cap is ", *soft_cap,
          "; it must be above 0 (1e-30 … 1e30)");
  }
  if (alibi_slopes.data() != nullptr) {
    check(alibi_slopes.size(0) == sizes.heads, function, "ALiBi has ", alibi_slopes.size(0),
          " slopes for H = ", sizes.heads, " query heads; give one for each");
    check_extent(function, "alibi_slopes", alibi_slopes);
  }
  if (relative.table.data() != nullptr) check_relative(function, relative, sizes.heads);
  if (bias.data() != nullptr) check_bias(function, bias, sizes);
  if (sinks.data() != nullptr) {
    check(sinks.size(0) == sizes.heads, function, "there are ", sinks.size(0), " sinks for H = ", sizes.heads,
          " query heads; give one for each");
    check_extent(function, "sinks", sinks);
    check(normaliser == Normaliser::softmax, function,
          "sinks with the sigmoid normaliser: a sink is a term of the softmax's sum, which sigmoid has not");
  }
  check(dropout.probability >= 0.0F && dropout.probability < 1.0F, function, "dropout has a probability of ",
        dropout.probability, "; it must be in 0 … 1 and below 1");
  const auto ids = static_cast<int64_t>(dropout.item_ids.size());
  check(ids == 0 || ids == sizes.batch, function, "dropout has ", ids, " item ids for a batch of ", sizes.batch,
        "; give one for each item, or none");
}

int64_t ScoreOptions::query_offset(const MaskSizes& sizes, const Mask& mask, int64_t b) const {
  return positions.is_stated() || !mask.has_positions() ? positions.offset(sizes, b) : mask.query_offset(sizes, b);
}

void ScoreGradients::check_fits(const char* function, const ScoreOptions& options) const {
  const auto check_one = [&](const char* name, const auto& gradient, const auto& of) {
    if (gradient.data() == nullptr) return;
    check(of.data() != nullptr, function, name, " is asked for, but there is nothing that it is the gradient of");
    check(gradient.shape() == of.shape(), function, name, " has shape ", gradient.shape(), ", expected ", of.shape());
    check_extent(function, name, gradient);
  };
  check_one("d_bias", d_bias.view, options.bias);
  check_one("d_alibi_slopes", d_alibi_slopes, options.alibi_slopes);
  check_one("d_relative_table", d_relative_table, options.relative.table);
  check_one("d_sinks", d_sinks, options.sinks);
  const View<float, 4>& bias = d_bias.view;
  check(bias.data() == nullptr || bias.size(3) <= 1 || bias.stride(3) == 1, function, "d_bias has strides ",
        bias.strides(), "; its last dimension must be contiguous (stride 1)");
}

std::vector<float> alibi_slopes(int64_t heads) {
  check(heads >= 1 && heads <= kMostHeads, "alibi_slopes", "there are ", heads, " heads; give 1 to ", kMostHeads);
  const auto below = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  std::vector<float> slopes;
  const auto add = [&](double exponent) { slopes.push_back(static_cast<float>(std::exp2(exponent))); };
  for (int64_t i = 1; i <= below; ++i) add(-8.0 * static_cast<double>(i) / static_cast<double>(below));
  for (int64_t i = 0; i < heads - below; ++i) {
    add(-8.0 * static_cast<double>(2 * i + 1) / static_cast<double>(2 * below));
  }
  return slopes;
}

int64_t relative_bucket(int64_t distance, int64_t buckets, int64_t max_distance, bool bidirectional) {
  const int64_t side = bidirectional ? buckets / 2 : buckets;
  const int64_t first = bidirectional && distance > 0 ? side : 0;
  const int64_t steps = bidirectional ? std::abs(distance) : std::max<int64_t>(-distance, 0);
  const int64_t exact = exact_buckets(buckets, bidirectional);
  if (steps < exact) return first + steps;
  // In float, as T5 computes it: at the borders of buckets the rounding decides.
  const float ratio = std::log(static_cast<float>(steps) / static_cast<float>(exact)) /
                      static_cast<float>(std::log(static_cast<double>(max_distance) / static_cast<double>(exact)));
  const int64_t grown = exact + static_cast<int64_t>(ratio * static_cast<float>(side - exact));
  return first + std::min(grown, side - 1);
}

}  // namespace heed
