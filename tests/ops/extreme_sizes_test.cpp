// Sizes whose products overflow: refused by every operation, with its name and the sizes, before anything is touched.
#include <gtest/gtest.h>

#include <limits>

#include "heed/ops/matmul.h"
#include "heed/ops/packed_matrix.h"
#include "heed/ops/rotary.h"
#include "tests/support/expect_error.h"

namespace heed::test {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t k30 = int64_t{1} << 30;
constexpr int64_t k40 = int64_t{1} << 40;
constexpr int64_t k62 = int64_t{1} << 62;

// One value, read again and again.
float any = 7.0F;

template <int N>
View<float, N> repeated(const Shape<N>& shape) {
  return {&any, shape, Shape<N>{}};
}

class ExtremeSizes : public ::testing::Test {
 protected:
  void SetUp() override { any = 7.0F; }
  void TearDown() override { EXPECT_EQ(any, 7.0F) << "something was written"; }
};

TEST_F(ExtremeSizes, OfProductsAreRefused) {
  const auto refused = [](int64_t m, int64_t k, int64_t n, const std::string& text) {
    expect_error("matmul", [&] { matmul(repeated<2>({m, k}), repeated<2>({k, n}), repeated<2>({m, n})); }, {text});
    expect_error("matmul",
                 [&] {
                   matmul(repeated<3>({1, m, k}), repeated<3>({1, k, n}), repeated<3>({1, m, n}));
                 },
                 {"matmul"});
  };
  refused(k40, k30, 1, "a has shape [1099511627776, 1073741824]");
  refused(1, k30, k40, "b has shape [1073741824, 1099511627776]");
  refused(k30, 1, k40, "c has shape [1073741824, 1099511627776]");
  refused(k62, 0, 1, "a has shape [4611686018427387904, 0]");
  refused(kMost, 1, 0, "a has shape [9223372036854775807, 1]");
  refused(-1, 1, 1, "a has a negative size: [-1, 1]");
  expect_error("matmul",
               [] {
                 matmul(repeated<3>({k62, 0, 1}), repeated<3>({k62, 1, 2}), repeated<3>({k62, 0, 2}));
               },
               {"[4611686018427387904, 0, 1]"});
  expect_error("matmul",
               [] {
                 matmul(repeated<2>({kMost, 2}), PackedMatrix(repeated<2>({2, 2})), repeated<2>({kMost, 2}));
               },
               {"a has shape [9223372036854775807, 2]"});
}

TEST_F(ExtremeSizes, OfStridesOfProductsAreRefused) {
  const View<const float, 2> far(&any, {3, 2}, {kMost, 1});
  float result[6] = {};
  const View<float, 2> c(result, {3, 2});
  const View<const float, 2> one = repeated<2>({2, 2});
  expect_error("matmul", [&] { matmul(far, one, c); }, {"a of shape [3, 2] has strides [9223372036854775807, 1]"});
  MatmulOptions options;
  options.residual = far;
  expect_error("matmul", [&] { matmul(repeated<2>({3, 2}), one, c, options); }, {"residual of shape [3, 2]"});
  options.residual = {};
  options.bias = {&any, {2}, {kMost}};
  expect_error("matmul", [&] { matmul(repeated<2>({3, 2}), one, c, options); }, {"bias of shape [2]"});
}

TEST_F(ExtremeSizes, OfPackedMatricesAreRefused) {
  for (const Shape<2>& shape : {Shape<2>{k40, k30}, Shape<2>{kMost, 1}, Shape<2>{1, kMost}, Shape<2>{k62, 0},
                                Shape<2>{0, k62}, Shape<2>{-1, -1}}) {
    expect_error("PackedMatrix", [&] { PackedMatrix packed(repeated<2>(shape)); }, {to_text(shape)});
  }
}

TEST_F(ExtremeSizes, OfAPackedMatrixWithoutRowsTakeNoTime) {
  const PackedMatrix packed(repeated<2>({0, k40}));
  EXPECT_EQ(packed.rows(), 0);
}

TEST_F(ExtremeSizes, OfRotatedTensorsAreRefused) {
  const RotaryTable table({.width = 2, .positions = 4});
  for (const Shape<4>& shape : {Shape<4>{k40, 1, k30, 2}, Shape<4>{k62, 0, 1, 2}, Shape<4>{1, 2, k62, 4},
                                Shape<4>{1, 0, 1, kMost}, Shape<4>{1, -1, 1, 2}}) {
    const View<float, 4> x(&any, shape, {0, 0, 0, 1});
    expect_error("rotary_forward", [&] { rotary_forward(x, table, {}, x); }, {"x has", to_text(shape)});
    expect_error("rotary_backward", [&] { rotary_backward(x, table, {}, x); }, {"d_out has", to_text(shape)});
    expect_error("f", [&] { check_rotary("f", "q", shape, table, {}); }, {"q has", to_text(shape)});
  }
}

TEST_F(ExtremeSizes, OfRotaryTablesAndPositionsAreRefused) {
  expect_error("RotaryTable", [] { RotaryTable({.width = 1 << 20, .positions = k40}); }, {"[1099511627776, 1048576]"});
  expect_error("RotaryTable", [] { RotaryTable({.width = kMost - 1, .positions = 1}); },
               {"width is 9223372036854775806"});
  const int64_t least = std::numeric_limits<int64_t>::min();
  expect_error("RotaryTable", [&] { RotaryTable({.width = 2, .first = least, .positions = 1}); },
               {"first = -92233720"});
  const RotaryTable table({.width = 2, .positions = 4});
  const View<float, 4> x(&any, {1, 1, 1, 2}, {0, 0, 0, 1});
  expect_error("rotary_forward", [&] { rotary_forward(x, table, {.offset = least}, x); }, {"an offset is -92233720"});
}

}  // namespace
}  // namespace heed::test
