// matmul: the stated order of arithmetic to the last bit, in every layout and on every path.
#include "heed/ops/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "heed/simd/isa.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/every_isa.h"
#include "tests/support/matrix.h"
#include "tests/support/threads.h"

namespace heed::test {
namespace {

// a · b + sum as the instruction set in use does it.
float multiply_add(float a, float b, float sum) {
#if defined(__x86_64__)
  if (isa() == Isa::baseline) {
    const float product = a * b;
    return product + sum;
  }
#endif
  return std::fma(a, b, sum);
}

// The stated order: one chain over k, restarted every kBlockDepth, block sums added in order.
float plain_element(View<const float, 2> a, View<const float, 2> b, int64_t i, int64_t j) {
  float total = 0.0F;
  for (int64_t first = 0; first < a.size(1); first += kBlockDepth) {
    float sum = 0.0F;
    for (int64_t k = first; k < std::min(first + kBlockDepth, a.size(1)); ++k)
      sum = multiply_add(a(i, k), b(k, j), sum);
    total = first == 0 ? sum : total + sum;
  }
  return total;
}

Matrix plain_product(View<const float, 2> a, View<const float, 2> b) {
  Matrix c(a.size(0), b.size(1));
  for (int64_t i = 0; i < a.size(0); ++i) {
    for (int64_t j = 0; j < b.size(1); ++j) c.view()(i, j) = plain_element(a, b, i, j);
  }
  return c;
}

View<const float, 2> read(const Matrix& matrix) { return matrix.view(); }

TEST(Matmul, EachElementIsOneChainOverKRestartedEveryBlockDepth) {
  on_every_isa([] {
    for (const int64_t m : {1, 2, 3, 5, 8, 13, 31}) {
      for (const int64_t n : {1, 7, 16, 33, 64, 101}) {
        for (const int64_t k : {int64_t{1}, int64_t{17}, kBlockDepth, kBlockDepth + 1, 3 * kBlockDepth + 5}) {
          SCOPED_TRACE(to_text(Shape<3>{m, n, k}));
          const Matrix a(m, k, Layout::rows, 1);
          const Matrix b(k, n, Layout::rows, 2);
          Matrix c(m, n);
          matmul(a.view(), b.view(), c.view());
          expect_same_bits(read(c), read(plain_product(a.view(), b.view())));
          if (HasFatalFailure()) return;
        }
      }
    }
  });
}

TEST(Matmul, EveryNumberOfRowsAndColumns) {
  on_every_isa([] {
    for (int64_t size = 1; size <= 70; ++size) {
      SCOPED_TRACE(size);
      const Matrix a(size, 9, Layout::rows, 3);
      const Matrix b(9, 71 - size, Layout::rows, 4);
      const Matrix expected = plain_product(a.view(), b.view());
      Matrix c(size, 71 - size);
      matmul(a.view(), b.view(), c.view());
      expect_same_bits(read(c), read(expected));
      Matrix d(size, 71 - size);
      matmul(a.view(), PackedMatrix(b.view()), d.view());
      expect_same_bits(read(d), read(expected));
      if (HasFatalFailure()) return;
    }
  });
}

TEST(Matmul, EveryLayoutOfEveryFactorHasTheSameBits) {
  on_every_isa([] {
    const Shape<3> shapes[] = {{1, 50, 300}, {2, 100, 40}, {19, 75, 300}, {67, 131, 70}};
    for (const auto& [m, n, k] : shapes) {
      const Matrix expected = plain_product(Matrix(m, k, Layout::rows, 5).view(), Matrix(k, n, Layout::rows, 6).view());
      for (const Layout layout_a : kLayouts) {
        for (const Layout layout_b : kLayouts) {
          for (const Layout layout_c : kLayouts) {
            SCOPED_TRACE(to_text(Shape<3>{m, n, k}) + " a " + layout_name(layout_a) + ", b " + layout_name(layout_b) +
                         ", c " + layout_name(layout_c));
            const Matrix a(m, k, layout_a, 5);
            const Matrix b(k, n, layout_b, 6);
            Matrix c(m, n, layout_c, 7);
            matmul(a.view(), b.view(), c.view());
            expect_same_bits(read(c), read(expected));
            c.expect_guards();
            Matrix d(m, n, layout_c, 7);
            matmul(a.view(), PackedMatrix(b.view()), d.view());
            expect_same_bits(read(d), read(expected));
            d.expect_guards();
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  });
}

// Large enough for several blocks in each direction.
TEST(Matmul, AnyNumberOfThreadsGivesTheSameBits) {
  on_every_isa([] {
    const Shape<3> shapes[] = {{1, 4000, 700}, {7, 1000, 600}, {900, 50, 300}, {300, 400, 600}, {1500, 900, 20}};
    for (const auto& [m, n, k] : shapes) {
      SCOPED_TRACE(to_text(Shape<3>{m, n, k}));
      const Matrix a(m, k, Layout::rows, 8);
      for (const Layout layout : {Layout::rows, Layout::columns}) {
        const Matrix b(k, n, layout, 9);
        const PackedMatrix packed(b.view());
        Matrix one(m, n);
        {
          const Threads threads(1);
          matmul(a.view(), b.view(), one.view());
        }
        for (const int count : {1, 2, 3, 8}) {
          SCOPED_TRACE(count);
          const Threads threads(count);
          Matrix c(m, n);
          matmul(a.view(), b.view(), c.view());
          expect_same_bits(read(c), read(one));
          Matrix d(m, n);
          matmul(a.view(), packed, d.view());
          expect_same_bits(read(d), read(one));
          if (HasFatalFailure()) return;
        }
        for (int64_t i = 0; i < m; i += 1 + m / 3) {
          for (int64_t j = 0; j < n; j += 1 + n / 7) {
            ASSERT_EQ(one.view()(i, j), plain_element(a.view(), b.view(), i, j)) << i << " " << j;
          }
        }
      }
    }
  });
}

TEST(Matmul, ARowAloneHasTheBitsItHasAmongOthers) {
  on_every_isa([] {
    const int64_t m = 41;
    const int64_t n = 203;
    const int64_t k = 300;
    const Matrix a(m, k, Layout::rows, 10);
    const Matrix b(k, n, Layout::rows, 11);
    const PackedMatrix packed(b.view());
    Matrix all(m, n);
    matmul(a.view(), b.view(), all.view());
    for (const int64_t rows : {1, 2, 3, 4, 6, 11}) {
      for (int64_t first = 0; first + rows <= m; first += 7) {
        Matrix some(rows, n);
        matmul(read(a).slice(0, first, rows), b.view(), some.view());
        expect_same_bits(read(some), read(all).slice(0, first, rows));
        matmul(read(a).slice(0, first, rows), packed, some.view());
        expect_same_bits(read(some), read(all).slice(0, first, rows));
        if (HasFatalFailure()) return;
      }
    }
    // And a few columns alone.
    Matrix some(m, 5);
    matmul(a.view(), read(b).slice(1, 90, 5), some.view());
    expect_same_bits(read(some), read(all).slice(1, 90, 5));
  });
}

TEST(Matmul, ABatchHasTheBitsOfItsItems) {
  on_every_isa([] {
    const int64_t items = 5;
    const Shape<3> shapes[] = {{7, 20, 30}, {1, 64, 300}, {100, 120, 260}};
    for (const auto& [m, n, k] : shapes) {
      const Matrix a(items * m, k, Layout::rows, 12);
      const Matrix b(items * k, n, Layout::rows, 13);
      Matrix c(items * m, n, Layout::rows, 14);
      const View<float, 3> batch_c(c.view().data(), {items, m, n});
      // Every item has its own b, shares the first one, or shares the first a.
      for (const bool own_a : {true, false}) {
        for (const bool own_b : {true, false}) {
          SCOPED_TRACE(own_a ? own_b ? "own a and b" : "one b" : own_b ? "one a" : "one a and b");
          const View<const float, 3> batch_a(read(a).data(), {items, m, k}, {own_a ? m * k : 0, k, 1});
          const View<const float, 3> batch_b(read(b).data(), {items, k, n}, {own_b ? k * n : 0, n, 1});
          matmul(batch_a, batch_b, batch_c);
          for (int64_t item = 0; item < items; ++item) {
            Matrix expected(m, n);
            matmul(batch_a[item], batch_b[item], expected.view());
            expect_same_bits(View<const float, 2>(batch_c[item]), read(expected));
            if (HasFatalFailure()) return;
          }
          c.expect_guards();
        }
      }
    }
  });
}

TEST(Matmul, IsAsExactAsItsChainsAgainstDouble) {
  on_every_isa([] {
    const int64_t m = 50;
    const int64_t n = 60;
    const int64_t k = 2000;
    const Matrix a(m, k, Layout::rows, 15);
    const Matrix b(k, n, Layout::rows, 16);
    Matrix c(m, n);
    matmul(a.view(), b.view(), c.view());
    double worst = 0.0;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0.0;
        for (int64_t step = 0; step < k; ++step) {
          sum += static_cast<double>(read(a)(i, step)) * static_cast<double>(read(b)(step, j));
        }
        worst = std::max(worst, std::abs(static_cast<double>(c.view()(i, j)) - sum));
      }
    }
    // Sums of 2000 unit products are about 45; the chain's rounding is a few dozen units in the last place of a float.
    EXPECT_LE(worst, 1e-4);
    EXPECT_GT(worst, 0.0);
  });
}

TEST(Matmul, TheSumOverNoKIsZero) {
  on_every_isa([] {
    const Matrix a(3, 0);
    const Matrix b(0, 40);
    Matrix c(3, 40);
    const Matrix bias(1, 40, Layout::rows, 17);
    matmul(a.view(), b.view(), c.view());
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < 40; ++j) ASSERT_EQ(c.view()(i, j), 0.0F);
    }
    MatmulOptions options;
    options.bias = bias.view()[0];
    matmul(a.view(), PackedMatrix(b.view()), c.view(), options);
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < 40; ++j) ASSERT_EQ(c.view()(i, j), bias.view()(0, j));
    }
  });
}

TEST(Matmul, EmptyOutputsAreNoError) {
  on_every_isa([] {
    const Matrix a(0, 5);
    const Matrix b(5, 7);
    Matrix c(0, 7);
    matmul(a.view(), b.view(), c.view());
    matmul(a.view(), PackedMatrix(b.view()), c.view());
    Matrix d(7, 0);
    matmul(Matrix(7, 5).view(), Matrix(5, 0).view(), d.view());
    matmul(View<const float, 3>(nullptr, {0, 2, 5}), View<const float, 3>(nullptr, {0, 5, 7}),
           View<float, 3>(nullptr, {0, 2, 7}));
    c.expect_guards();
    d.expect_guards();
  });
}

TEST(Matmul, NanAndInfinityStayInTheirRowAndColumn) {
  on_every_isa([] {
    for (const int64_t m : {1, 21}) {
      Matrix a(m, 50, Layout::rows, 18);
      Matrix b(50, 45, Layout::rows, 19);
      a.view()(0, 11) = std::numeric_limits<float>::quiet_NaN();
      b.view()(13, 44) = std::numeric_limits<float>::infinity();
      for (const bool packed : {false, true}) {
        Matrix c(m, 45);
        if (packed) {
          matmul(a.view(), PackedMatrix(b.view()), c.view());
        } else {
          matmul(a.view(), b.view(), c.view());
        }
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < 45; ++j) {
            const float value = c.view()(i, j);
            if (i == 0) {
              ASSERT_TRUE(std::isnan(value)) << j;
            } else if (j == 44) {
              ASSERT_TRUE(std::isinf(value)) << i;
            } else {
              ASSERT_TRUE(std::isfinite(value)) << i << " " << j;
            }
          }
        }
      }
    }
  });
}

TEST(Matmul, AllocatesNothingWithAnArena) {
  on_every_isa([] {
    const Matrix a(130, 600);
    const Matrix b(600, 500, Layout::columns);
    const PackedMatrix packed(b.view());
    Matrix c(130, 500);
    for (const int count : {1, 3}) {
      const Threads threads(count);
      Arena arena;
      MatmulOptions options;
      options.arena = &arena;
      const auto call = [&] {
        matmul(a.view(), b.view(), c.view(), options);
        matmul(a.view(), packed, c.view(), options);
      };
      call();
      const int64_t before = allocation_count();
      call();
      EXPECT_EQ(allocation_count(), before);
    }
  });
}

}  // namespace
}  // namespace heed::test
