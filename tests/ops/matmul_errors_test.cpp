// Bad input to matmul and PackedMatrix: an Error that names function, shapes and rule; nothing written.
#include <gtest/gtest.h>

#include <string>

#include "heed/core/error.h"
#include "heed/ops/matmul.h"
#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"
#include "tests/support/matrix.h"

namespace heed::test {
namespace {

// c unchanged after a refused call.
class Untouched {
 public:
  Untouched(int64_t m, int64_t n) : c_(m, n, Layout::rows, 9), before_(c_) {}
  ~Untouched() {
    expect_same_bits(View<const float, 2>(c_.view()), View<const float, 2>(before_.view()));
    c_.expect_guards();
  }
  operator View<float, 2>() { return c_.view(); }
  View<float, 2> view() { return c_.view(); }

 private:
  Matrix c_;
  Matrix before_;
};

TEST(MatmulErrors, ShapesThatDoNotFit) {
  const Matrix a(4, 5);
  Untouched c(4, 6);
  expect_error([&] { matmul(a.view(), Matrix(7, 6).view(), c); }, {"matmul", "[4, 5]", "[7, 6]", "columns of a"});
  expect_error([&] { matmul(a.view(), Matrix(5, 8).view(), c); }, {"matmul", "[4, 6]", "[4, 5]", "[5, 8]", "[4, 8]"});
  expect_error([&] { matmul(Matrix(3, 5).view(), Matrix(5, 6).view(), c); }, {"matmul", "[4, 6]", "[3, 6]"});
  expect_error([&] { matmul(a.view(), PackedMatrix(Matrix(7, 6).view()), c); }, {"matmul", "[4, 5]", "[7, 6]"});
}

TEST(MatmulErrors, BatchesThatDiffer) {
  const Matrix a(6, 5);
  Untouched c(6, 4);
  expect_error(
      [&] {
        matmul(View<const float, 3>(a.view().data(), {2, 3, 5}), View<const float, 3>(a.view().data(), {1, 5, 4}),
               View<float, 3>(c.view().data(), {2, 3, 4}));
      },
      {"matmul", "[2, 3, 5]", "[1, 5, 4]", "[2, 3, 4]", "stride of 0"});
}

TEST(MatmulErrors, NullViewsAndNegativeSizes) {
  const Matrix a(4, 5);
  const Matrix b(5, 6);
  Untouched c(4, 6);
  expect_error(
      [&] {
        matmul(View<const float, 2>(nullptr, {4, 5}), b.view(), c);
      },
      {"matmul", "a is a null view of shape [4, 5]"});
  expect_error(
      [&] {
        matmul(a.view(), View<const float, 2>(nullptr, {5, 6}), c);
      },
      {"matmul", "b is a null view of shape [5, 6]"});
  expect_error(
      [&] {
        matmul(a.view(), b.view(), View<float, 2>(nullptr, {4, 6}));
      },
      {"matmul", "c is a null view of shape [4, 6]"});
  expect_error(
      [&] {
        matmul(View<const float, 2>(a.view().data(), {-4, 5}), b.view(), c);
      },
      {"matmul", "[-4, 5]", "negative"});
  expect_error([&] { PackedMatrix packed(View<const float, 2>(nullptr, {5, 6})); }, {"PackedMatrix", "[5, 6]", "null"});
  expect_error(
      [&] {
        PackedMatrix packed(View<const float, 2>(b.view().data(), {5, -6}));
      },
      {"PackedMatrix", "[5, -6]", "negative"});
}

TEST(MatmulErrors, AnOutputThatWritesAnElementTwice) {
  const Matrix a(4, 5);
  const Matrix b(5, 6);
  Untouched c(4, 6);
  float* memory = c.view().data();
  for (const Shape<2>& strides : {Shape<2>{0, 1}, Shape<2>{6, 0}, Shape<2>{1, 1}, Shape<2>{2, 1}, Shape<2>{3, 2}}) {
    expect_error(
        [&] {
          matmul(a.view(), b.view(), View<float, 2>(memory, {4, 6}, strides));
        },
        {"matmul", "[4, 6]", "twice"});
  }
  expect_error(
      [&] {
        matmul(View<const float, 3>(a.view().data(), {2, 2, 5}),
               View<const float, 3>(b.view().data(), {2, 5, 6}, {0, 6, 1}),
               View<float, 3>(memory, {2, 2, 6}, {0, 6, 1}));
      },
      {"matmul", "[2, 2, 6]", "twice"});
  expect_error([&] { matmul(a.view(), View<const float, 2>(memory, {5, 6}), c.view()); }, {"matmul", "in place"});
}

TEST(MatmulErrors, BiasAndResidualOfOtherSizes) {
  const Matrix a(4, 5);
  const Matrix b(5, 6);
  Untouched c(4, 6);
  const Matrix other(3, 7);
  MatmulOptions options;
  options.bias = other.view()[0];
  expect_error([&] { matmul(a.view(), b.view(), c, options); }, {"matmul", "bias", "[7]", "[4, 6]"});
  options.bias = {};
  options.residual = other.view();
  expect_error([&] { matmul(a.view(), PackedMatrix(b.view()), c, options); },
               {"matmul", "residual", "[3, 7]", "[4, 6]"});
}

TEST(MatmulErrors, AMatrixPackedForAnotherInstructionSet) {
  if (supported_isas().size() < 2) GTEST_SKIP() << "one instruction set only";
  const Isa before = isa();
  set_isa(supported_isas().front());
  const PackedMatrix packed(Matrix(5, 6).view());
  set_isa(supported_isas().back());
  Untouched c(4, 6);
  expect_error([&] { matmul(Matrix(4, 5).view(), packed, c); }, {"matmul", "packed for", "pack it again"});
  set_isa(before);
}

}  // namespace
}  // namespace heed::test
