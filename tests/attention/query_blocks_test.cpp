// How the queries of a call become tasks.
#include "heed/attention/query_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "heed/parallel/parallel_for.h"

namespace heed::test {
namespace {

std::vector<QueryBlock> blocks_of(int threads, const MaskSizes& sizes, const Mask& mask, int64_t dim = 64) {
  const int before = heed::threads();
  set_threads(threads);
  Problem problem;
  problem.sizes = sizes;
  problem.d_k = problem.d_v = dim;
  std::vector<QueryBlock> blocks;
  for_each_query_block(problem, mask, [&](const QueryBlock& block) { blocks.push_back(block); });
  set_threads(before);
  return blocks;
}

int64_t queries(const QueryBlock& block) { return block.q_end - block.q_begin; }

TEST(QueryBlocks, HoldEveryQueryOfEveryHeadOnceLastFirst) {
  for (const int threads : {1, 2, 3}) {
    for (const int64_t t : {0, 1, 63, 64, 65, 513, 1500}) {
      for (const Mask& mask :
           {Mask(), Mask::documents(t > 64 ? std::vector<int64_t>{0, 1, 60} : std::vector{int64_t{0}})}) {
        const MaskSizes sizes{2, 3, t, t};
        int64_t b = 0;
        int64_t head = -1;
        int64_t begin = 0;  // of the block before
        for (const QueryBlock& block : blocks_of(threads, sizes, mask)) {
          if (begin == 0) {
            if (++head == sizes.heads) ++b, head = 0;
            begin = t;
          }
          EXPECT_EQ(block.b, b);
          EXPECT_EQ(block.head, head);
          EXPECT_EQ(block.q_end, begin);
          EXPECT_LT(block.q_begin, block.q_end);
          EXPECT_GE(block.q_begin, block.segment.q_begin);
          begin = block.q_begin;
        }
        EXPECT_EQ(begin, 0);
        EXPECT_EQ(b * sizes.heads + head, t == 0 ? -1 : 5);
      }
    }
  }
}

TEST(QueryBlocks, OfOneThreadAreAsGreatAsTheCacheAllows) {
  for (const QueryBlock& block : blocks_of(1, {1, 8, 1024, 1024}, Mask())) EXPECT_EQ(queries(block), 512);
  for (const QueryBlock& block : blocks_of(1, {1, 8, 1024, 1024}, Mask(), 128)) EXPECT_EQ(queries(block), 256);
  for (const QueryBlock& block : blocks_of(1, {1, 8, 1024, 1024}, Mask(), 4096)) EXPECT_EQ(queries(block), 128);
}

TEST(QueryBlocks, OfSeveralThreadsShrinkSoThatTheThreadsEndTogether) {
  for (const int threads : {2, 4}) {
    const std::vector<QueryBlock> blocks = blocks_of(threads, {1, 8, 1024, 1024}, Mask());
    int64_t left = 8 * 1024;
    EXPECT_EQ(queries(blocks.front()), 512);
    EXPECT_EQ(queries(blocks.back()), 64);
    for (const QueryBlock& block : blocks) {
      EXPECT_LE(queries(block), std::max<int64_t>(left / threads / 4, 64));
      left -= queries(block);
    }
    EXPECT_EQ(left, 0);
  }
}

}  // namespace
}  // namespace heed::test
