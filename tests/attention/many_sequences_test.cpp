// KvCache with many sequences: the work of a call grows with their number, not with its square. At these sizes a look
// at all pairs of sequences takes minutes.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "heed/attention/kv_cache.h"
#include "tests/support/expect_error.h"

namespace heed::test {
namespace {

constexpr int64_t kMany = 1 << 19;

class ManySequences : public ::testing::Test {
 protected:
  ManySequences() : cache({.capacity = 256, .sequences = kMany, .d_k = 1, .d_v = 1}) {
    for (int64_t i = 0; i < kMany; ++i) sequences.push_back(cache.add());
  }

  KvCache cache;
  std::vector<int64_t> sequences;
  float value = 1.0F;
};

TEST_F(ManySequences, AreAppendedToInOneCall) {
  std::vector<KvChunk> chunks;
  for (const int64_t sequence : sequences) {
    // There is room for two of them; the others get chunks without keys.
    const int64_t keys = sequence < 2 ? 1 : 0;
    chunks.push_back({sequence, 0, {&value, {keys, 1, 1}}, {&value, {keys, 1, 1}}});
  }
  cache.append(chunks);
  EXPECT_EQ(cache.length(1), 1);
  EXPECT_EQ(cache.length(2), 0);
  chunks.erase(chunks.begin(), chunks.begin() + 2);
  chunks.push_back(chunks.front());
  expect_error("KvCache::append", [&] { cache.append(chunks); }, {"sequence 2 is given twice in one call"});
}

TEST_F(ManySequences, AreReorderedInOneCall) {
  cache.append({0, 0, {&value, {1, 1, 1}}, {&value, {1, 1, 1}}});
  std::vector<int64_t> parents(sequences.size());
  std::iota(parents.rbegin(), parents.rend(), 0);
  cache.reorder(sequences, parents);
  EXPECT_EQ(cache.length(0), 0);
  EXPECT_EQ(cache.length(kMany - 1), 1);
}

TEST_F(ManySequences, AreGivenTheFirstFreeNumbers) {
  for (const int64_t sequence : {7, 3, 5}) cache.remove(sequence);
  for (const int64_t sequence : {3, 5, 7}) EXPECT_EQ(cache.add(), sequence);
  expect_error("KvCache::add", [&] { cache.add(); }, {"all 524288 sequences"});
}

// Sequences that share a page: all but the last one get a copy of it, whichever of them were in the call before.
TEST(SharedPages, AreCountedAnewInEachCall) {
  constexpr int64_t kForks = 200;
  float value = 1.0F;
  KvCache cache({.capacity = (kForks + 1) * kPageKeys, .sequences = kForks + 1, .d_k = 1, .d_v = 1});
  std::vector<int64_t> sequences{cache.add()};
  cache.append({sequences[0], 0, {&value, {1, 1, 1}}, {&value, {1, 1, 1}}});
  for (int64_t i = 0; i < kForks; ++i) sequences.push_back(cache.fork(sequences[0]));
  const View<const float, 3> key(&value, {1, 1, 1});
  std::vector<KvChunk> chunks;
  for (const int64_t sequence : sequences) chunks.push_back({sequence, 1, key, key});
  // Refused for the last chunk alone, twice: what the first call counted is forgotten.
  const View<const float, 3> long_keys(&value, {kPageKeys + 1, 1, 1}, {0, 0, 1});
  chunks.back().k = chunks.back().v = long_keys;
  for (int i = 0; i < 2; ++i) {
    expect_error("KvCache::append", [&] { cache.append(chunks); }, {"the cache is full"});
  }
  chunks.back().k = chunks.back().v = key;
  cache.append(chunks);
  EXPECT_EQ(cache.free_pages(), 0);
  for (const int64_t sequence : sequences) EXPECT_EQ(cache.length(sequence), 2);
}

}  // namespace
}  // namespace heed::test
