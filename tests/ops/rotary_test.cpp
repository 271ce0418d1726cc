// Rotary positions: against PyTorch, long double and each other; the same bits however a call is cut.
#include "heed/ops/rotary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "heed/core/error.h"
#include "heed/core/rng.h"
#include "heed/parallel/parallel_for.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/closeness.h"
#include "tests/support/draw.h"
#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"
#include "tests/support/golden.h"
#include "tests/support/matrix.h"

namespace heed::test {
namespace {

constexpr RotaryPairing kPairings[] = {RotaryPairing::interleaved, RotaryPairing::halves};

Tensor normal_tensor(const std::vector<int64_t>& shape, uint64_t seed) {
  Tensor tensor(shape);
  Rng(seed).fill_normal(tensor.values());
  return tensor;
}

Tensor like(const Tensor& tensor) { return Tensor(tensor.shape()); }

View<const float, 4> constant(const Tensor& tensor) { return tensor.view<4>(); }

Tensor forward(const Tensor& x, const RotaryTable& table, const RotaryPositions& positions) {
  Tensor out = like(x);
  rotary_forward(constant(x), table, positions, out.view<4>());
  return out;
}

// The formula in double, one element at a time: x [D] at `position` → y [D].
std::vector<double> rotated(const std::vector<double>& x, const RotaryOptions& options, int64_t position) {
  std::vector<double> y = x;
  const int64_t pairs = options.width / 2;
  for (int64_t i = 0; i < pairs; ++i) {
    const bool neighbours = options.pairing == RotaryPairing::interleaved;
    const auto a = static_cast<size_t>(neighbours ? 2 * i : i);
    const auto b = static_cast<size_t>(neighbours ? 2 * i + 1 : i + pairs);
    const double angle = static_cast<double>(position) *
                         std::pow(options.base, -2.0 * static_cast<double>(i) / static_cast<double>(options.width));
    y[a] = x[a] * std::cos(angle) - x[b] * std::sin(angle);
    y[b] = x[a] * std::sin(angle) + x[b] * std::cos(angle);
  }
  return y;
}

TEST(RotaryGolden, ForwardAndBackwardAgreeWithPyTorch) {
  const std::vector<GoldenCase> cases = load_goldens("rotary.txt");
  ASSERT_GE(cases.size(), 10U);
  on_every_isa([&] {
    for (const GoldenCase& golden : cases) {
      SCOPED_TRACE(golden.name);
      const Tensor& given = golden.tensors.at("positions");
      const std::vector<int64_t> positions(given.values().begin(), given.values().end());
      const auto [least, most] = std::ranges::minmax(positions);
      RotaryOptions options;
      options.pairing = golden.texts.at("pairing") == "halves" ? RotaryPairing::halves : RotaryPairing::interleaved;
      options.width = std::stoll(golden.texts.at("width"));
      options.base = std::stod(golden.texts.at("base"));
      options.first = least;
      options.positions = most - least + 1;
      const RotaryTable table(options);
      RotaryPositions where;
      where.positions = {positions.data(), {given.shape()[0], given.shape()[1]}};

      const Tensor& x = golden.tensors.at("x");
      const Tensor out = forward(x, table, where);
      expect_heads_close(out.view<4>(), constant(golden.tensors.at("out")), 2e-7);
      Tensor d_x = like(x);
      rotary_backward(constant(golden.tensors.at("d_out")), table, where, d_x.view<4>());
      expect_heads_close(constant(d_x), constant(golden.tensors.at("d_x")), 2e-7);
    }
  });
}

// The bound that rotary.h states, against long double.
TEST(Rotary, TableIsWithinItsStatedErrorToPosition4Million) {
  for (const double base : {1.0, 10000.0, 500000.0}) {
    for (const int64_t first : {int64_t{0}, int64_t{1000000} - 50, int64_t{1} << 22, -int64_t{1000100}}) {
      const RotaryTable table({.base = base, .width = 96, .first = first, .positions = 200});
      for (int64_t position = first; position < first + 200; ++position) {
        const long double bound = 0x1p-25L + std::abs(static_cast<long double>(position)) * 0x1p-51L;
        for (int64_t i = 0; i < table.pairs(); ++i) {
          const long double angle = static_cast<long double>(position) *
                                    std::pow(static_cast<long double>(base), -2.0L * static_cast<long double>(i) / 96);
          const long double cosine = static_cast<long double>(table.row(position)[i]);
          const long double sine = static_cast<long double>(table.row(position)[table.pairs() + i]);
          ASSERT_LE(std::abs(cosine - std::cos(angle)), bound) << "position " << position << ", pair " << i;
          ASSERT_LE(std::abs(sine - std::sin(angle)), bound) << "position " << position << ", pair " << i;
        }
      }
    }
  }
}

TEST(Rotary, PositionZeroLeavesEveryBit) {
  on_every_isa([] {
    for (const RotaryPairing pairing : kPairings) {
      const Tensor x = normal_tensor({2, 1, 3, 40}, 1);
      const RotaryTable table({.pairing = pairing, .width = 36, .positions = 1});
      expect_same_bits(constant(forward(x, table, {})), constant(x));
    }
  });
}

// q · k depends on the distance of their positions alone.
TEST(Rotary, ProductsDependOnTheDistanceAlone) {
  for (const RotaryPairing pairing : kPairings) {
    const Tensor q = normal_tensor({1, 1, 1, 64}, 1);
    const Tensor k = normal_tensor({1, 1, 1, 64}, 2);
    const RotaryTable table({.pairing = pairing, .width = 64, .positions = 3000});
    const auto product = [&](int64_t at_q, int64_t at_k) {
      const Tensor a = forward(q, table, {.offset = at_q});
      const Tensor b = forward(k, table, {.offset = at_k});
      double sum = 0.0;
      for (size_t i = 0; i < 64; ++i) sum += static_cast<double>(a.values()[i]) * static_cast<double>(b.values()[i]);
      return sum;
    };
    EXPECT_NEAR(product(17, 5), product(2017, 2005), 1e-4);
    EXPECT_GT(std::abs(product(17, 5) - product(17, 6)), 1e-2);
  }
}

struct RandomCase {
  explicit RandomCase(uint64_t seed) : draw(seed) {
    shape = {draw.between(1, 3), draw.between(1, 40), draw.between(1, 4), draw.between(2, 80)};
    options.pairing = kPairings[draw.below(2)];
    options.width = draw.chance(3) ? 2 * draw.between(1, shape[3] / 2) : shape[3] / 2 * 2;
    options.base = draw.chance(2) ? 10000.0 : 77.5;
    options.first = draw.chance(2) ? 0 : draw.between(-300, 300);
    options.positions = 200;
    for (int64_t i = 0; i < shape[0] * shape[1]; ++i) explicit_positions.push_back(options.first + draw.below(200));
    for (int64_t b = 0; b < shape[0]; ++b) offsets.push_back(options.first + draw.below(150));
    const int64_t way = draw.below(4);
    if (way == 0) where.offset = offsets[0];
    if (way == 1) where.offsets = offsets;
    if (way == 2) where.positions = {explicit_positions.data(), {shape[0], shape[1]}};
    if (way == 3) where.positions = {explicit_positions.data(), {1, shape[1]}};
  }

  int64_t position(int64_t b, int64_t t) const {
    if (where.positions.data() != nullptr) return where.positions(where.positions.size(0) == 1 ? 0 : b, t);
    return t + (where.offsets.empty() ? where.offset : offsets[static_cast<size_t>(b)]);
  }

  Draw draw;
  std::vector<int64_t> shape;
  RotaryOptions options;
  std::vector<int64_t> explicit_positions;
  std::vector<int64_t> offsets;
  RotaryPositions where;
};

TEST(Rotary, RandomCasesMatchTheDoubleFormulaForwardAndBack) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const RandomCase c(seed);
    const RotaryTable table(c.options);
    const Tensor x = normal_tensor(c.shape, seed);
    on_every_isa([&] {
      SCOPED_TRACE("seed " + std::to_string(seed));
      const Tensor out = forward(x, table, c.where);
      const int64_t d = c.shape[3];
      Closeness all;
      for (int64_t b = 0; b < c.shape[0]; ++b) {
        for (int64_t t = 0; t < c.shape[1]; ++t) {
          for (int64_t h = 0; h < c.shape[2]; ++h) {
            const float* head = &constant(x)(b, t, h, 0);
            const std::vector<double> expected = rotated({head, head + d}, c.options, c.position(b, t));
            for (int64_t i = 0; i < d; ++i) all.add(constant(out)(b, t, h, i), expected[static_cast<size_t>(i)]);
          }
        }
      }
      ASSERT_LE(all.relative(), 2e-7);
      // The rotation is orthogonal, so backward is its inverse.
      Tensor back = like(x);
      rotary_backward(constant(out), table, c.where, back.view<4>());
      expect_heads_close(constant(back), constant(x), 4e-7);
      ASSERT_FALSE(::testing::Test::HasFailure());
    });
  }
}

TEST(Rotary, SameBitsForAnyThreadsChunksBatchMatesAndStrides) {
  const int before = threads();
  on_every_isa([] {
    for (const RotaryPairing pairing : kPairings) {
      const Tensor x = normal_tensor({3, 500, 4, 46}, 5);
      const RotaryTable table({.pairing = pairing, .width = 42, .positions = 600});
      set_threads(1);
      const Tensor expected = forward(x, table, {.offset = 60});
      set_threads(3);
      expect_same_bits(constant(forward(x, table, {.offset = 60})), constant(expected));

      // One item in two chunks, into the middle of a wider row, with the heads before the tokens.
      Tensor wide = normal_tensor({4, 500, 100}, 6);
      const View<float, 4> part(wide.values().data() + 7, {1, 500, 4, 46}, {4 * 500 * 100, 100, 500 * 100, 1});
      const View<const float, 4> item = constant(x).slice(0, 1, 1);
      rotary_forward(item.slice(1, 0, 123), table, {.offset = 60}, part.slice(1, 0, 123));
      rotary_forward(item.slice(1, 123, 377), table, {.offset = 183}, part.slice(1, 123, 377));
      expect_same_bits(View<const float, 4>(part), constant(expected).slice(0, 1, 1));
      EXPECT_EQ(wide.values()[6], normal_tensor({4, 500, 100}, 6).values()[6]);
      EXPECT_EQ(wide.values()[7 + 46], normal_tensor({4, 500, 100}, 6).values()[7 + 46]);
    }
  });
  set_threads(before);
}

TEST(Rotary, InPlaceGivesTheSameBits) {
  on_every_isa([] {
    for (const RotaryPairing pairing : kPairings) {
      Tensor x = normal_tensor({2, 9, 3, 45}, 7);
      const RotaryTable table({.pairing = pairing, .width = 38, .positions = 20});
      const Tensor out = forward(x, table, {.offset = 11});
      Tensor back = like(x);
      rotary_backward(constant(out), table, {.offset = 11}, back.view<4>());
      rotary_forward(constant(x), table, {.offset = 11}, x.view<4>());
      expect_same_bits(constant(x), constant(out));
      rotary_backward(constant(x), table, {.offset = 11}, x.view<4>());
      expect_same_bits(constant(x), constant(back));
    }
  });
}

TEST(Rotary, NotANumberStaysInItsPair) {
  on_every_isa([] {
    for (const RotaryPairing pairing : kPairings) {
      Tensor x = normal_tensor({1, 2, 1, 12}, 8);
      const RotaryTable table({.pairing = pairing, .width = 12, .positions = 5});
      const Tensor clean = forward(x, table, {.offset = 3});
      x.values()[4] = std::numeric_limits<float>::quiet_NaN();  // pair 2, or pair 4 of halves
      const Tensor out = forward(x, table, {.offset = 3});
      const size_t other = pairing == RotaryPairing::halves ? 10 : 5;
      for (size_t i = 0; i < 24; ++i) {
        if (i == 4 || i == other) {
          EXPECT_TRUE(std::isnan(out.values()[i]));
        } else {
          EXPECT_EQ(out.values()[i], clean.values()[i]);
        }
      }
    }
  });
}

TEST(Rotary, EmptyTensorsAreFine) {
  const RotaryTable table({.width = 4, .positions = 0});
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{0, 3, 2, 4}, {2, 0, 2, 4}}) {
    Tensor x(shape);
    rotary_forward(constant(x), table, {}, x.view<4>());
    rotary_backward(constant(x), table, {}, x.view<4>());
  }
}

TEST(Rotary, CallsAllocateNothing) {
  Tensor x = normal_tensor({2, 64, 4, 64}, 9);
  const RotaryTable table({.width = 64, .positions = 64});
  rotary_forward(constant(x), table, {}, x.view<4>());
  const int64_t before = allocation_count();
  rotary_forward(constant(x), table, {}, x.view<4>());
  rotary_backward(constant(x), table, {}, x.view<4>());
  EXPECT_EQ(allocation_count(), before);
}

TEST(RotaryErrors, TablesThatCannotBe) {
  const auto build = [](RotaryOptions options) { return [=] { const RotaryTable table(options); }; };
  expect_error(build({.width = 0, .positions = 4}), {"RotaryTable", "width is 0", "even"});
  expect_error(build({.width = 7, .positions = 4}), {"RotaryTable", "width is 7", "even"});
  expect_error(build({.base = 0.0, .width = 4, .positions = 4}), {"RotaryTable", "base is 0"});
  expect_error(build({.base = std::nan(""), .width = 4, .positions = 4}), {"RotaryTable", "base is nan"});
  expect_error(build({.width = 4, .positions = -1}), {"RotaryTable", "positions = -1"});
  expect_error(build({.width = 4, .first = int64_t{1} << 41, .positions = 1}), {"RotaryTable", "first = "});
}

TEST(RotaryErrors, RefusedCallsWriteNothing) {
  const Tensor x = normal_tensor({2, 5, 3, 8}, 10);
  Tensor out = normal_tensor({2, 5, 3, 8}, 11);
  const Tensor before = out;
  const RotaryTable table({.width = 8, .first = 2, .positions = 10});  // positions 2 … 11
  const std::vector<int64_t> positions{2, 3, 4, 5, 12};
  const std::vector<int64_t> offsets{2, 3, 4};
  const auto call = [&](const RotaryTable& with, const RotaryPositions& where) {
    return [&x, &out, &with, where] { rotary_forward(constant(x), with, where, out.view<4>()); };
  };
  expect_error(call(table, {}), {"rotary_forward", "positions 0 … 4", "holds 10 from 2"});
  expect_error(call(table, {.offset = 8}), {"rotary_forward", "positions 8 … 12"});
  expect_error(call(table, {.offsets = offsets}), {"rotary_forward", "3 offsets", "batch of 2"});
  expect_error(call(table, {.offset = 2, .offsets = offsets}), {"rotary_forward", "more than one way"});
  expect_error(call(table, {.positions = {positions.data(), {1, 5}}}), {"rotary_forward", "positions 12"});
  expect_error(call(table, {.positions = {positions.data(), {1, 4}}}), {"rotary_forward", "[1, 4]", "T = 5"});
  const RotaryTable wide({.width = 10, .positions = 9});
  expect_error(call(wide, {}), {"rotary_forward", "10 elements of 8"});

  const RotaryPositions where{.offset = 2};
  Tensor other({2, 5, 3, 7});
  expect_error([&] { rotary_forward(constant(x), table, where, other.view<4>()); },
               {"rotary_forward", "out", "[2, 5, 3, 7]", "[2, 5, 3, 8]"});
  expect_error(
      [&] {
        rotary_backward({nullptr, {2, 5, 3, 8}}, table, where, out.view<4>());
      },
      {"rotary_backward", "d_out is a null view"});
  expect_error(
      [&] {
        rotary_backward(constant(x), table, where, {nullptr, {2, 5, 3, 8}});
      },
      {"rotary_backward", "d_x is a null view"});
  const View<float, 4> last_strided(out.values().data(), {1, 5, 3, 8}, {240, 48, 16, 2});
  expect_error([&] { rotary_forward(last_strided, table, where, out.view<4>()); },
               {"rotary_forward", "contiguous", "strides"});
  const View<float, 4> crossed(out.values().data(), {2, 5, 3, 8}, {120, 8, 40, 1});
  expect_error([&] { rotary_forward(constant(out), table, where, crossed); }, {"rotary_forward", "begins where x"});
  expect_same_bits(constant(out), constant(before));
}

}  // namespace
}  // namespace heed::test
