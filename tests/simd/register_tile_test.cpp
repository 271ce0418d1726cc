// A tile's sums have the bits of a plain loop over k, whatever its rows and vectors.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "heed/core/rng.h"
#include "heed/simd/dispatch.h"
#include "tests/simd/register_tile_kernel.h"
#include "tests/support/every_isa.h"

namespace heed::test {
namespace {

constexpr float kGuard = -12345.0F;

TileFacts facts() {
  return dispatch([]<Isa isa>() { return tile_facts_kernel<isa>(); });
}

std::vector<float> normal_values(int64_t count, uint64_t seed) {
  std::vector<float> values(static_cast<size_t>(count));
  Rng(seed).fill_normal(values);
  return values;
}

// A product a b of `rows` rows and `vectors` vectors of columns; `out` has one guarded column more.
struct Case {
  int64_t rows = 1;
  int vectors = 1;
  int64_t depth = 1;
  TileStart start = TileStart::zero;
  bool unit_rows = false;  // a is stored [depth][rows], else [rows][depth]

  int64_t columns() const { return vectors * facts().lanes; }
};

class Product {
 public:
  explicit Product(const Case& c)
      : case_(c),
        a_(normal_values(c.rows * c.depth, 1)),
        b_(normal_values(c.columns() * c.depth, 2)),
        before_(normal_values(c.rows * out_step(), 3)),
        out_(before_) {
    for (int64_t row = 0; row < c.rows; ++row) out_[static_cast<size_t>(row * out_step() + c.columns())] = kGuard;
  }

  TileProduct call() {
    return {a_.data(),
            case_.unit_rows ? 1 : case_.depth,
            case_.unit_rows ? case_.rows : 1,
            b_.data(),
            case_.columns(),
            case_.depth,
            out_.data(),
            out_step(),
            case_.start};
  }

  void expect_chain_bits() const {
    for (int64_t row = 0; row < case_.rows; ++row) {
      for (int64_t column = 0; column < case_.columns(); ++column) {
        const size_t at = static_cast<size_t>(row * out_step() + column);
        ASSERT_EQ(std::bit_cast<uint32_t>(out_[at]), std::bit_cast<uint32_t>(chain(row, column, before_[at])))
            << "row " << row << ", column " << column;
      }
      ASSERT_EQ(out_[static_cast<size_t>(row * out_step() + case_.columns())], kGuard) << "row " << row;
    }
  }

 private:
  int64_t out_step() const { return case_.columns() + 1; }

  // One chain of multiply-adds over k.
  float chain(int64_t row, int64_t column, float before) const {
    const bool fused = facts().fused;
    float sum = case_.start == TileStart::load ? before : 0.0F;
    for (int64_t k = 0; k < case_.depth; ++k) {
      const float a = a_[static_cast<size_t>(case_.unit_rows ? k * case_.rows + row : row * case_.depth + k)];
      const float b = b_[static_cast<size_t>(k * case_.columns() + column)];
      sum = fused ? std::fma(a, b, sum) : a * b + sum;
    }
    return case_.start == TileStart::add ? before + sum : sum;
  }

  Case case_;
  std::vector<float> a_;
  std::vector<float> b_;
  std::vector<float> before_;
  std::vector<float> out_;
};

TEST(RegisterTile, BitsAreThoseOfOneChainForEveryShape) {
  on_every_isa([] {
    for (int vectors = 1; vectors <= facts().most_vectors; ++vectors) {
      for (int rows = 1; rows <= 16; ++rows) {
        for (const int64_t depth : {0, 1, 2, 7, 64}) {
          for (const bool unit_rows : {false, true}) {
            SCOPED_TRACE(::testing::Message() << rows << " rows, " << vectors << " vectors, depth " << depth);
            Product product({rows, vectors, depth, TileStart::zero, unit_rows});
            dispatch([&]<Isa isa>() { tile_kernel<isa>(product.call(), rows, vectors); });
            product.expect_chain_bits();
          }
        }
      }
    }
  });
}

TEST(RegisterTile, ALoadedTileContinuesTheChainAndAnAddedOneAddsItsSum) {
  on_every_isa([] {
    for (const TileStart start : {TileStart::load, TileStart::add}) {
      for (int rows = 1; rows <= 16; ++rows) {
        Product product({rows, 2, 9, start, false});
        dispatch([&]<Isa isa>() { tile_kernel<isa>(product.call(), rows, 2); });
        product.expect_chain_bits();
      }
    }
  });
}

TEST(RegisterTile, RowTilesCoverEveryNumberOfRowsOnce) {
  on_every_isa([] {
    for (int vectors = 1; vectors <= facts().most_vectors; ++vectors) {
      for (int64_t rows = 0; rows <= 40; ++rows) {
        SCOPED_TRACE(::testing::Message() << rows << " rows, " << vectors << " vectors");
        Product product({rows, vectors, 5, TileStart::add, rows % 2 == 0});
        dispatch([&]<Isa isa>() { row_tiles_kernel<isa>(product.call(), rows, vectors); });
        product.expect_chain_bits();
      }
    }
  });
}

}  // namespace
}  // namespace heed::test
