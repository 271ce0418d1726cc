// The contract's edge cases: rows with no visible key, empty sizes, and non-finite values seen or hidden. Large scores
// and large values are in large_value_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "heed/core/rng.h"
#include "tests/support/attention_case.h"
#include "tests/support/every_isa.h"

namespace heed::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> log_sum_exp_of(const AttentionCase& c) {
  Tensor result({c.sizes.batch, c.sizes.heads, c.sizes.t_q});
  log_sum_exp(c.rows, result.view<3>());
  return values_of(std::as_const(result).view<3>());
}

void expect_all(const std::vector<float>& values, float expected, const char* name) {
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i], expected) << name << ", element " << i << " of " << values.size();
  }
}

void expect_rows_without_keys(AttentionCase& c) {
  const AttentionResults results = run(c);
  expect_all(results.out, 0.0F, "out");
  expect_all(results.shift, -kInfinity, "shift");
  expect_all(results.sum, 0.0F, "sum");
  expect_all(log_sum_exp_of(c), -kInfinity, "log-sum-exp");
  expect_all(results.d_q, 0.0F, "d_q");
  expect_all(results.d_k, 0.0F, "d_k");
  expect_all(results.d_v, 0.0F, "d_v");
}

void fill(View<float, 4> view, float value) {
  for (int64_t b = 0; b < view.size(0); ++b) {
    for (int64_t t = 0; t < view.size(1); ++t) {
      for (int64_t h = 0; h < view.size(2); ++h) std::fill_n(&view(b, t, h, 0), view.size(3), value);
    }
  }
}

constexpr AttentionSizes kSmall{.batch = 2, .t_q = 50, .t_k = 140, .heads = 2, .kv_heads = 1, .d_k = 5, .d_v = 7};

TEST(EdgeCase, ARowWithNoVisibleKeyIsZeroWithLogSumExpMinusInfinityAndNoGradient) {
  const auto hidden = std::make_unique<bool[]>(50 * 140);  // all false
  const Mask masks[] = {
      Mask::lengths({0, 0}),
      Mask::causal(QueryPositions::from(-50)),
      Mask::window(5, 5, QueryPositions::from(int64_t{1} << 33)),
      Mask::window(5, 5, QueryPositions::from(-(int64_t{1} << 33))),
      Mask::keep(View<const bool, 2>(hidden.get(), {50, 140})),
  };
  for (const Mask& mask : masks) {
    SCOPED_TRACE(mask.description());
    for (const float value : {1.0F, kNan, kInfinity}) {
      AttentionCase c(kSmall, Layout::bthd, 1);
      c.options.mask = mask;
      // Not even from a value that is not finite.
      if (value != 1.0F) {
        for (const View<float, 4>& view : {c.q, c.k, c.v, c.d_out}) fill(view, value);
      }
      on_every_isa([&] { expect_rows_without_keys(c); });
    }
  }
}

TEST(EdgeCase, ARowWithNoVisibleKeyAmongOthersDoesNotDisturbThem) {
  AttentionCase c({.t_q = 200, .t_k = 150, .heads = 1, .kv_heads = 1, .d_k = 8, .d_v = 8}, Layout::bthd, 2);
  c.options.mask = Mask::causal(QueryPositions::bottom_right());  // queries 0 … 49 see nothing
  const ReferenceResult expected = reference_result(c);
  on_every_isa([&] {
    const AttentionResults results = run(c);
    for (size_t i = 0; i < 50 * 8; ++i) ASSERT_EQ(results.out[i], 0.0F);
    for (size_t i = 0; i < 50 * 8; ++i) ASSERT_EQ(results.d_q[i], 0.0F);
    EXPECT_LE(relative_error(results.out, expected.out), 2e-6);
    EXPECT_LE(relative_error(results.d_q, expected.d_q, 0.1 * expected.d_q_terms), 1e-5);
    EXPECT_LE(relative_error(results.d_k, expected.d_k, 0.1 * expected.d_k_terms), 1e-5);
    EXPECT_LE(relative_error(results.d_v, expected.d_v), 1e-5);
  });
}

TEST(EdgeCase, WithTk0EveryRowHasNoVisibleKey) {
  for (const Mask& mask : {Mask(), Mask::lengths({0, 0}), Mask::causal(QueryPositions::top_left())}) {
    AttentionCase c({.batch = 2, .t_q = 70, .t_k = 0, .heads = 4, .kv_heads = 2, .d_k = 8, .d_v = 3}, Layout::bhtd, 1);
    c.options.mask = mask;
    on_every_isa([&] { expect_rows_without_keys(c); });
  }
}

TEST(EdgeCase, WithTq0TheOutputIsEmptyAndKeysHaveNoGradient) {
  AttentionCase c({.batch = 2, .t_q = 0, .t_k = 200, .heads = 2, .kv_heads = 1, .d_k = 8, .d_v = 3}, Layout::bthd, 1);
  on_every_isa([&] {
    const AttentionResults results = run(c);
    EXPECT_TRUE(results.out.empty());
    expect_all(results.d_k, 0.0F, "d_k");
    expect_all(results.d_v, 0.0F, "d_v");
  });
}

TEST(EdgeCase, WithB0TheOutputIsEmptyAndNothingIsAnError) {
  AttentionCase c({.batch = 0, .t_q = 9, .t_k = 9, .heads = 2, .kv_heads = 1, .d_k = 8, .d_v = 3}, Layout::bthd, 1);
  c.options.mask = Mask::causal() & Mask::lengths({});
  on_every_isa([&] { EXPECT_TRUE(run(c).out.empty()); });
}

// Masks that show some of the keys to some of the queries, for Tq = Tk = kLength.
constexpr int64_t kLength = 200;

class SomeMasks {
 public:
  SomeMasks() {
    for (int64_t i = 0; i < kLength * kLength; ++i) bits_[static_cast<size_t>(i)] = Rng(9).bits(uint64_t(i)) % 3 == 0;
    const View<const bool, 2> dense(bits_.get(), {kLength, kLength});
    masks = {Mask(),
             Mask::causal(),
             Mask::lengths({kLength - 9}),
             Mask::window(20, 3),
             Mask::documents({0, 60, 180}),
             Mask::keep(dense),
             Mask::block(dense),
             Mask::causal() & Mask::lengths({190}) & Mask::documents({0, 20, 150}) & Mask::block(dense)};
  }
  std::vector<Mask> masks;

 private:
  std::unique_ptr<bool[]> bits_ = std::make_unique<bool[]>(kLength * kLength);
};

constexpr AttentionSizes kPoisoned{.t_q = kLength, .t_k = kLength, .heads = 2, .kv_heads = 1, .d_k = 5, .d_v = 7};

enum class Poisoned { q, k, v, d_out };

// Which results a poisoned element at time t may reach, by the mask: rows [heads][kLength] and keys [kLength].
struct Reach {
  std::vector<bool> row = std::vector<bool>(2 * kLength);
  std::vector<bool> key = std::vector<bool>(kLength);

  Reach(const Mask& mask, Poisoned where, int64_t t) {
    const MaskSizes sizes{1, 2, kLength, kLength};
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t i = 0; i < kLength; ++i) {
        const bool of_query = where == Poisoned::q || where == Poisoned::d_out;
        // A poisoned q or d_out is one of head 1.
        if (!(of_query ? h == 1 && i == t : mask.visible(sizes, 0, h, i, t))) continue;
        row[static_cast<size_t>(h * kLength + i)] = true;
        for (int64_t j = 0; j < kLength; ++j) {
          if (mask.visible(sizes, 0, h, i, j)) key[static_cast<size_t>(j)] = true;
        }
      }
    }
  }
  bool reaches_row(size_t t, size_t h) const { return row[h * kLength + t]; }
  bool reaches_key(size_t t) const { return key[t]; }
};

// Values of [T, H, D] results: outside of the reach the bits of the clean run, inside it finite exactly where the
// reference is.
template <class Reaches>
void expect_reach(const std::vector<float>& got, const std::vector<float>& clean, const std::vector<double>& expected,
                  size_t heads, Reaches reaches) {
  const size_t width = got.size() / (kLength * heads);
  for (size_t i = 0; i < got.size(); ++i) {
    const size_t t = i / (heads * width);
    const size_t h = i / width % heads;
    if (reaches(t, h)) {
      ASSERT_EQ(std::isfinite(got[i]), std::isfinite(expected[i])) << "t " << t << ", head " << h << ": " << got[i];
    } else {
      ASSERT_TRUE(same_bits({got[i]}, {clean[i]})) << "t " << t << ", head " << h << ": " << got[i];
    }
  }
}

void expect_poison_stays_in_reach(const Mask& mask, Poisoned where, int64_t t, float value) {
  AttentionCase clean_case(kPoisoned, Layout::bthd, 3);
  AttentionCase c(kPoisoned, Layout::bthd, 3);
  clean_case.options.mask = c.options.mask = mask;
  const View<float, 4> views[] = {c.q, c.k, c.v, c.d_out};
  const View<float, 4>& view = views[static_cast<size_t>(where)];
  view(0, t, view.size(2) - 1, 2) = value;
  const ReferenceResult expected = reference_result(c);
  const Reach reach(mask, where, t);
  on_every_isa([&] {
    const AttentionResults clean = run(clean_case);
    const AttentionResults got = run(c);
    const auto row = [&](size_t at, size_t h) { return where != Poisoned::d_out && reach.reaches_row(at, h); };
    const auto gradient_row = [&](size_t at, size_t h) { return reach.reaches_row(at, h); };
    const auto key = [&](size_t at, size_t) { return reach.reaches_key(at); };
    expect_reach(got.out, clean.out, expected.out, 2, row);
    expect_reach(got.d_q, clean.d_q, expected.d_q, 2, gradient_row);
    expect_reach(got.d_k, clean.d_k, expected.d_k, 1, key);
    expect_reach(got.d_v, clean.d_v, expected.d_v, 1, key);
    for (size_t i = 0; i < got.sum.size(); ++i) {
      if (row(i % kLength, i / kLength)) continue;
      ASSERT_TRUE(same_bits({got.sum[i], got.shift[i]}, {clean.sum[i], clean.shift[i]})) << "row " << i;
    }
  });
}

void expect_every_poison_stays_in_reach(Poisoned where) {
  const SomeMasks some;
  const float values[] = {kNan, kInfinity, -kInfinity};
  for (size_t i = 0; i < some.masks.size(); ++i) {
    // Near both ends, and across the bound of a piece; each mask meets each value.
    const int64_t times[] = {1, 130, kLength - 2};
    for (size_t n = 0; n < 3; ++n) {
      const float value = values[(i + n) % 3];
      SCOPED_TRACE(some.masks[i].description() + ", " + std::to_string(value) + " at " + std::to_string(times[n]));
      expect_poison_stays_in_reach(some.masks[i], where, times[n], value);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(EdgeCase, ANonFiniteQueryReachesItsRowAndTheKeysItSeesAndNothingElse) {
  expect_every_poison_stays_in_reach(Poisoned::q);
}

TEST(EdgeCase, ANonFiniteKeyReachesTheRowsThatSeeItAndNothingElse) { expect_every_poison_stays_in_reach(Poisoned::k); }

TEST(EdgeCase, ANonFiniteValueReachesTheRowsThatSeeItAndNothingElse) {
  expect_every_poison_stays_in_reach(Poisoned::v);
}

TEST(EdgeCase, ANonFiniteGradientReachesItsRowAndTheKeysItSeesAndNothingElse) {
  expect_every_poison_stays_in_reach(Poisoned::d_out);
}

TEST(EdgeCase, HiddenKeysAndValuesOfNanNeverReachAnOutputOrAGradient) {
  const auto blocked = std::make_unique<bool[]>(kLength * kLength);
  const auto kept = std::make_unique<bool[]>(kLength * kLength);
  for (int64_t i = 0; i < kLength * kLength; ++i) {
    blocked[static_cast<size_t>(i)] = i % kLength >= 100;
    kept[static_cast<size_t>(i)] = i % kLength < 100;
  }
  // Each hides keys 100 and on from every query.
  const Mask masks[] = {Mask::lengths({100}),
                        Mask::causal(QueryPositions::from(99 - kLength + 1)),
                        Mask::window(Mask::kUnlimited, 10, QueryPositions::from(89 - kLength + 1)),
                        Mask::documents({0, 100}, QueryPositions::from(-kLength)),
                        Mask::block(View<const bool, 2>(blocked.get(), {kLength, kLength})),
                        Mask::keep(View<const bool, 2>(kept.get(), {kLength, kLength}))};
  for (const Mask& mask : masks) {
    SCOPED_TRACE(mask.description());
    for (const float value : {kNan, kInfinity, -kInfinity}) {
      AttentionCase clean_case(kPoisoned, Layout::fused_qkv, 4);
      AttentionCase c(kPoisoned, Layout::fused_qkv, 4);
      clean_case.options.mask = c.options.mask = mask;
      for (const View<float, 4>& view : {c.k, c.v}) fill(view.slice(1, 100, kLength - 100), value);
      on_every_isa([&] {
        const AttentionResults clean = run(clean_case);
        const AttentionResults got = run(c);
        EXPECT_TRUE(same_bits(got.out, clean.out));
        EXPECT_TRUE(same_bits(got.sum, clean.sum) && same_bits(got.shift, clean.shift));
        EXPECT_TRUE(same_bits(got.d_q, clean.d_q));
        EXPECT_TRUE(same_bits(got.d_k, clean.d_k));
        EXPECT_TRUE(same_bits(got.d_v, clean.d_v));
        for (const float each : got.out) ASSERT_TRUE(std::isfinite(each));
        for (const float each : got.d_q) ASSERT_TRUE(std::isfinite(each));
      });
    }
  }
}

TEST(EdgeCase, PlusInfinityInAVisibleScoreGivesNanInItsRow) {
  AttentionCase c({.t_q = 60, .t_k = 140, .heads = 1, .kv_heads = 1, .d_k = 1, .d_v = 2}, Layout::bthd, 5);
  fill(c.q, 1.0F);
  c.q(0, 30, 0, 0) = -1.0F;  // sees the same key with a score of -∞: weight 0
  c.k(0, 135, 0, 0) = kInfinity;
  on_every_isa([&] {
    const AttentionResults results = run(c);
    for (size_t i = 0; i < 60; ++i) {
      EXPECT_EQ(std::isnan(results.out[2 * i]), i != 30);
      EXPECT_EQ(std::isnan(results.out[2 * i + 1]), i != 30);
      EXPECT_EQ(std::isnan(log_sum_exp_of(c)[i]), i != 30);
    }
  });
}

}  // namespace
}  // namespace heed::test
