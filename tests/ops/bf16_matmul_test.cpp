// Weights in bf16: the bits of a product with the f32 matrix of the rounded weights, on every path.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>

#include "heed/core/bf16.h"
#include "heed/ops/matmul.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"
#include "tests/support/matrix.h"
#include "tests/support/threads.h"

namespace heed::test {
namespace {

View<const float, 2> read(const Matrix& matrix) { return matrix.view(); }

PackedMatrix bf16(const Matrix& matrix) { return PackedMatrix(matrix.view(), WeightStorage::bf16); }

Matrix rounded(Matrix matrix) {
  for (int64_t i = 0; i < matrix.view().size(0); ++i) {
    for (int64_t j = 0; j < matrix.view().size(1); ++j) {
      matrix.view()(i, j) = from_bf16(to_bf16(matrix.view()(i, j)));
    }
  }
  return matrix;
}

// What f32 gives, on the path without packing.
Matrix expected_product(const Matrix& a, const Matrix& b) {
  Matrix c(a.view().size(0), b.view().size(1));
  matmul(a.view(), rounded(b).view(), c.view());
  return c;
}

TEST(Bf16Weights, EveryNumberOfRowsHasTheBitsOfRoundedF32Weights) {
  on_every_isa([] {
    for (const int64_t n : {1, 15, 48, 64, 101, 330}) {
      for (const int64_t k : {int64_t{1}, int64_t{37}, kBlockDepth + 3}) {
        const Matrix b(k, n, Layout::rows, 2);
        const PackedMatrix packed = bf16(b);
        const Matrix a(45, k, Layout::rows, 1);
        const Matrix all = expected_product(a, b);
        for (int64_t m = 1; m <= 45; m += m < 20 ? 1 : 5) {
          SCOPED_TRACE(to_text(Shape<3>{m, n, k}));
          Matrix c(m, n);
          matmul(read(a).slice(0, 0, m), packed, c.view());
          expect_same_bits(read(c), read(all).slice(0, 0, m));
          c.expect_guards();
          if (HasFatalFailure()) return;
        }
      }
    }
  });
}

TEST(Bf16Weights, EveryLayoutOfEveryMatrixHasTheSameBits) {
  on_every_isa([] {
    const Shape<3> shapes[] = {{1, 50, 300}, {2, 100, 40}, {5, 140, 530}, {67, 131, 70}};
    for (const auto& [m, n, k] : shapes) {
      const Matrix expected = expected_product(Matrix(m, k, Layout::rows, 5), Matrix(k, n, Layout::rows, 6));
      for (const Layout layout_a : kLayouts) {
        const Matrix a(m, k, layout_a, 5);
        for (const Layout layout_b : kLayouts) {
          const PackedMatrix packed = bf16(Matrix(k, n, layout_b, 6));
          for (const Layout layout_c : kLayouts) {
            SCOPED_TRACE(to_text(Shape<3>{m, n, k}) + " a " + layout_name(layout_a) + ", b " + layout_name(layout_b) +
                         ", c " + layout_name(layout_c));
            Matrix c(m, n, layout_c, 7);
            matmul(a.view(), packed, c.view());
            expect_same_bits(read(c), read(expected));
            c.expect_guards();
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  });
}

// Large enough for several blocks in each direction.
TEST(Bf16Weights, AnyNumberOfThreadsGivesTheSameBits) {
  on_every_isa([] {
    const Shape<3> shapes[] = {{1, 4000, 700}, {7, 1000, 600}, {900, 50, 300}, {300, 900, 600}};
    for (const auto& [m, n, k] : shapes) {
      SCOPED_TRACE(to_text(Shape<3>{m, n, k}));
      const Matrix a(m, k, Layout::rows, 8);
      const Matrix b(k, n, Layout::columns, 9);
      const PackedMatrix packed = bf16(b);
      const Matrix expected = expected_product(a, b);
      for (const int count : {1, 2, 3, 8}) {
        SCOPED_TRACE(count);
        const Threads threads(count);
        Matrix c(m, n);
        matmul(a.view(), packed, c.view());
        expect_same_bits(read(c), read(expected));
        if (HasFatalFailure()) return;
      }
    }
  });
}

TEST(Bf16Weights, EveryEpilogueHasTheBitsOfRoundedF32Weights) {
  on_every_isa([] {
    for (const int64_t m : {1, 2, 9, 40}) {
      const int64_t n = 213;
      const Matrix a(m, 300, Layout::rows, 1);
      const Matrix b(300, n, Layout::rows, 2);
      const Matrix bias(1, n, Layout::rows, 3);
      const Matrix residual(m, n, Layout::padded_rows, 4);
      const PackedMatrix packed = bf16(b);
      const Matrix rounded_b = rounded(b);
      for (const Activation activation :
           {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
        for (int bits = 0; bits < 16; ++bits) {
          SCOPED_TRACE(std::to_string(m) + " rows, activation " + std::to_string(static_cast<int>(activation)) +
                       ", options " + std::to_string(bits));
          MatmulOptions options;
          options.activation = activation;
          if ((bits & 1) != 0) options.scale = 0.7F;
          if ((bits & 2) != 0) options.bias = bias.view()[0];
          if ((bits & 4) != 0) options.residual = residual.view();
          options.accumulate = (bits & 8) != 0;
          Matrix expected(m, n, Layout::rows, 5);
          matmul(a.view(), rounded_b.view(), expected.view(), options);
          Matrix c(m, n, Layout::rows, 5);
          matmul(a.view(), packed, c.view(), options);
          expect_same_bits(read(c), read(expected));
          if (HasFatalFailure()) return;
        }
      }
    }
  });
}

TEST(Bf16Weights, TakeHalfTheMemoryInARegularValue) {
  on_every_isa([] {
    const Matrix first(300, 700, Layout::rows, 1);
    const Matrix second(1500, 900, Layout::rows, 2);
    const Matrix a(3, 300, Layout::rows, 3);
    const Matrix wide(3, 1500, Layout::rows, 3);
    PackedMatrix packed = bf16(first);
    EXPECT_EQ(packed.storage(), WeightStorage::bf16);
    EXPECT_EQ(packed.bytes() * 2, PackedMatrix(first.view()).bytes());
    EXPECT_EQ(packed.data(), nullptr);
    EXPECT_EQ(PackedMatrix(first.view()).bf16_data(), nullptr);
    const auto expect_holds = [](const PackedMatrix& got, const Matrix& left, const Matrix& right) {
      EXPECT_EQ(got.storage(), WeightStorage::bf16);
      Matrix c(3, right.view().size(1));
      matmul(left.view(), got, c.view());
      expect_same_bits(read(c), read(expected_product(left, right)));
    };
    const PackedMatrix copy = packed;
    packed.assign(second.view());
    expect_holds(packed, wide, second);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(packed.bf16_data()) % (size_t{2} << 20), 0U);
    expect_holds(copy, a, first);
    PackedMatrix other(first.view());
    other = std::move(packed);
    expect_holds(other, wide, second);
    other = copy;
    expect_holds(other, a, first);
  });
}

// Ties to even, what overflows is ∞, NaN stays NaN, zeros keep their sign, denormals their bits: one by one, as the
// product with 1.
TEST(Bf16Weights, RoundAsToBf16Does) {
  on_every_isa([] {
    const float infinity = std::numeric_limits<float>::infinity();
    const float values[] = {0.0F,
                            -0.0F,
                            1.0F + 0x1p-8F,
                            1.0F + 0x1.8p-7F,
                            1.0F + 0x1.01p-8F,
                            -1.0F - 0x1p-8F,
                            std::numeric_limits<float>::max(),
                            std::numeric_limits<float>::lowest(),
                            infinity,
                            -infinity,
                            std::numeric_limits<float>::quiet_NaN(),
                            std::bit_cast<float>(0x7f800001U),
                            std::bit_cast<float>(0xffffffffU),
                            std::numeric_limits<float>::denorm_min(),
                            0x1.7p-130F};
    const auto n = static_cast<int64_t>(std::size(values));
    const PackedMatrix packed(View<const float, 2>(values, {1, n}), WeightStorage::bf16);
    // The lower halves hold row 0, the upper ones zeros past the last row.
    for (int64_t j = 0; j < n; ++j) EXPECT_EQ(packed.bf16_data()[j], to_bf16(values[j])) << values[j];
  });
}

TEST(Bf16Weights, AllocateNothingWithAnArena) {
  on_every_isa([] {
    const PackedMatrix packed = bf16(Matrix(600, 500));
    for (const int64_t m : {1, 8, 130}) {
      const Matrix a(m, 600);
      Matrix c(m, 500);
      for (const int count : {1, 3}) {
        const Threads threads(count);
        Arena arena;
        MatmulOptions options;
        options.arena = &arena;
        matmul(a.view(), packed, c.view(), options);
        const int64_t before = allocation_count();
        matmul(a.view(), packed, c.view(), options);
        EXPECT_EQ(allocation_count(), before);
      }
    }
  });
}

TEST(Bf16Weights, OfNothingAreNoError) {
  on_every_isa([] {
    Matrix c(3, 40);
    matmul(Matrix(3, 0).view(), bf16(Matrix(0, 40)), c.view());
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < 40; ++j) ASSERT_EQ(c.view()(i, j), 0.0F);
    }
    Matrix none(30, 0);
    matmul(Matrix(30, 5).view(), bf16(Matrix(5, 0)), none.view());
  });
}

TEST(Bf16Weights, AreCheckedAsF32WeightsAre) {
  expect_error(
      [] {
        PackedMatrix packed(View<const float, 2>(nullptr, {5, 6}), WeightStorage::bf16);
      },
      {"PackedMatrix", "[5, 6]", "null"});
  Matrix c(4, 6);
  expect_error([&] { matmul(Matrix(4, 5).view(), bf16(Matrix(7, 6)), c.view()); }, {"matmul", "[4, 5]", "[7, 6]"});
  if (supported_isas().size() < 2) return;
  const Isa before = isa();
  set_isa(supported_isas().front());
  const PackedMatrix packed = bf16(Matrix(5, 6));
  set_isa(supported_isas().back());
  expect_error([&] { matmul(Matrix(4, 5).view(), packed, c.view()); }, {"matmul", "pack it again after set_isa"});
  set_isa(before);
}

}  // namespace
}  // namespace heed::test
