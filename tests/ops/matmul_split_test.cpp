// How a product is cut into blocks: every thread gets work, and little of it is done twice.
#include <gtest/gtest.h>

#include "heed/ops/matmul_kernel.h"

namespace heed::test {
namespace {

// Views of sizes and strides alone: a plan reads no value.
MatmulCall call_of(int64_t m, int64_t n, int64_t k, bool packed) {
  static const float number = 0;
  static float result = 0;
  MatmulCall call;
  call.a = {&number, {m, k}};
  call.b = {&number, {k, n}};
  call.c = {&result, {m, n}};
  call.panels = panel_layout(Isa::avx2, n);
  if (packed) call.packed = &number;
  return call;
}

MatmulSplit split_of(int64_t m, int64_t n, int64_t k, bool packed, int threads, int64_t items = 1) {
  MatmulCall call = call_of(m, n, k, packed);
  return plan_matmul(call, items, threads);
}

TEST(MatmulSplit, BlocksCoverTheProduct) {
  for (const int threads : {1, 2, 3, 16}) {
    for (const int64_t m : {1, 4, 23, 512, 5000}) {
      for (const int64_t n : {1, 100, 768, 4000}) {
        for (const bool packed : {false, true}) {
          const MatmulSplit split = split_of(m, n, 300, packed, threads);
          const int64_t panels = panel_layout(Isa::avx2, n).count();
          EXPECT_GE(split.row_blocks * split.block_rows, m);
          EXPECT_LT((split.row_blocks - 1) * split.block_rows, m);
          EXPECT_GE(split.panel_blocks * split.block_panels, panels);
          EXPECT_LT((split.panel_blocks - 1) * split.block_panels, panels);
        }
      }
    }
  }
}

TEST(MatmulSplit, OneThreadDoesNotCutWhatTheCacheHolds) {
  const MatmulSplit split = split_of(1000, 512, 512, false, 1);
  EXPECT_TRUE(split.serial);
  EXPECT_EQ(split.row_blocks * split.panel_blocks, 1);
}

TEST(MatmulSplit, BlocksFillTheThreadsEvenly) {
  for (const int threads : {2, 3, 4, 7}) {
    for (const int64_t m : {128, 500, 512, 1000}) {
      for (const bool packed : {false, true}) {
        const MatmulSplit split = split_of(m, 1536, 512, packed, threads);
        const int64_t blocks = split.row_blocks * split.panel_blocks;
        EXPECT_FALSE(split.serial);
        EXPECT_GE(blocks, 2 * threads);
        EXPECT_TRUE(blocks % threads == 0 || blocks >= 8 * threads)
            << m << " rows, " << threads << " threads: " << blocks;
      }
    }
  }
}

TEST(MatmulSplit, CutsColumnsFirstWhereEachBlockOfRowsWouldPackBAgain) {
  EXPECT_EQ(split_of(512, 512, 512, false, 2).row_blocks, 1);
  EXPECT_GT(split_of(512, 512, 512, true, 2).row_blocks, 1);
}

TEST(MatmulSplit, LittleWorkStaysOnOneThread) {
  EXPECT_TRUE(split_of(64, 64, 64, true, 8).serial);
  EXPECT_FALSE(split_of(64, 64, 64, true, 8, 16).serial);
}

TEST(MatmulSplit, CopiesRowsOfAThatLieFarApartOnlyForManyColumns) {
  MatmulCall near = call_of(512, 512, 512, false);
  plan_matmul(near, 1, 1);
  EXPECT_FALSE(near.copy_a);
  MatmulCall far = call_of(512, 512, 2048, false);
  plan_matmul(far, 1, 1);
  EXPECT_TRUE(far.copy_a);
  MatmulCall narrow = call_of(512, 64, 2048, false);
  plan_matmul(narrow, 1, 1);
  EXPECT_FALSE(narrow.copy_a);
}

}  // namespace
}  // namespace heed::test
