// KvCache: pages are shared and given back, and a refused call changes nothing.
#include "heed/attention/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "heed/core/bf16.h"
#include "heed/core/error.h"
#include "tests/support/cached_case.h"
#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"

namespace heed::test {
namespace {

constexpr AttentionSizes kSizes{.batch = 2, .t_q = 600, .t_k = 600, .heads = 2, .kv_heads = 2, .d_k = 5, .d_v = 19};

// The values that the cache holds for a sequence: for each key and head its k, then its v.
std::vector<float> contents(const KvCache& cache, int64_t sequence) {
  const KvLayout& layout = cache.layout();
  const auto value = [&](const std::byte* page, int64_t at) {
    if (layout.storage == KvStorage::f32) return reinterpret_cast<const float*>(page)[at];
    return from_bf16(reinterpret_cast<const uint16_t*>(page)[at]);
  };
  std::vector<float> values;
  for (int64_t key = 0; key < cache.length(sequence); ++key) {
    const int64_t page = cache.pages(sequence)[static_cast<size_t>(key / kPageKeys)];
    const int64_t at = key % kPageKeys;
    for (int64_t head = 0; head < layout.kv_heads; ++head) {
      for (int64_t d = 0; d < layout.d_k; ++d) values.push_back(value(layout.k_page(head, page), layout.k_at(at, d)));
      for (int64_t d = 0; d < layout.d_v; ++d) {
        values.push_back(value(layout.v_page(head, page), layout.v_at(at, d)));
      }
    }
  }
  return values;
}

// What keys [0, length) of item b should be, through `stored`.
std::vector<float> expected_contents(
    const AttentionCase& c, int64_t b, int64_t length,
    const std::function<float(float)>& stored = [](float x) { return x; }) {
  std::vector<float> values;
  for (int64_t key = 0; key < length; ++key) {
    for (int64_t head = 0; head < c.sizes.kv_heads; ++head) {
      for (int64_t d = 0; d < c.sizes.d_k; ++d) values.push_back(stored(c.k(b, key, head, d)));
      for (int64_t d = 0; d < c.sizes.d_v; ++d) values.push_back(stored(c.v(b, key, head, d)));
    }
  }
  return values;
}

// Everything that a call may change.
struct Snapshot {
  explicit Snapshot(const KvCache& cache) : free_pages(cache.free_pages()) {
    for (int64_t i = 0; i < 40; ++i) {
      if (!cache.contains(i)) continue;
      numbers.push_back(i);
      pages.insert(pages.end(), cache.pages(i).begin(), cache.pages(i).end());
      const std::vector<float> more = contents(cache, i);
      values.insert(values.end(), more.begin(), more.end());
    }
  }
  bool operator==(const Snapshot&) const = default;

  int64_t free_pages;
  std::vector<int64_t> numbers;
  std::vector<int32_t> pages;
  std::vector<float> values;
};

class KvCacheTest : public ::testing::Test {
 protected:
  AttentionCase c{kSizes, Layout::bthd, 1};
  KvCache cache{cache_options(kSizes, 5 * kPageKeys)};

  // A new sequence with the first keys of item b.
  int64_t sequence_of(int64_t b, int64_t length) {
    const int64_t sequence = cache.add();
    cache.append(chunk_of(c, b, sequence, 0, length));
    return sequence;
  }

  void expect_refused(const std::string& function, const std::function<void()>& call,
                      const std::vector<std::string>& texts) {
    const Snapshot before(cache);
    expect_error(function, call, texts);
    EXPECT_TRUE(Snapshot(cache) == before) << "the cache has changed";
  }
};

TEST_F(KvCacheTest, HoldsWhatWasAppendedInAnyChunks) {
  on_every_isa([&] {
    for (const int64_t size : {1, 7, 16, 64, 127, 200, 600}) {
      KvCache fresh(cache_options(kSizes, 2 * 640));
      const std::vector<int64_t> sequences = add_sequences(fresh, 2);
      for (int64_t first = 0; first < 600; first += size) {
        const int64_t count = std::min(size, 600 - first);
        fresh.append(
            std::vector{chunk_of(c, 0, sequences[0], first, count), chunk_of(c, 1, sequences[1], first, count)});
      }
      EXPECT_EQ(contents(fresh, sequences[0]), expected_contents(c, 0, 600)) << size;
      EXPECT_EQ(contents(fresh, sequences[1]), expected_contents(c, 1, 600)) << size;
    }
  });
}

TEST_F(KvCacheTest, Bf16RoundsToNearestEven) {
  const auto rounded = [](float x) { return from_bf16(to_bf16(x)); };
  c.k(0, 3, 1, 2) = 1.00390625F;   // half way: to the even 1.0
  c.k(0, 20, 1, 2) = 1.01171875F;  // half way: to the even 1.015625
  on_every_isa([&] {
    KvCache half(cache_options(kSizes, 640, KvStorage::bf16));
    const int64_t sequence = half.add();
    half.append(chunk_of(c, 0, sequence, 0, 599));
    half.append(chunk_of(c, 0, sequence, 599, 1));
    EXPECT_EQ(contents(half, sequence), expected_contents(c, 0, 600, rounded));
  });
  EXPECT_EQ(rounded(1.00390625F), 1.0F);
  EXPECT_EQ(rounded(1.01171875F), 1.015625F);
}

TEST_F(KvCacheTest, Bf16KeepsNanAndInfinity) {
  const float values[] = {std::bit_cast<float>(0x7f800001U), -std::numeric_limits<float>::infinity(), 3.4e38F, -0.0F};
  on_every_isa([&] {
    for (int64_t i = 0; i < 4; ++i) {
      for (const int64_t key : {i, int64_t{599}}) {  // in a whole vector, and alone
        c.v(0, key, 0, i) = values[i];
        c.k(0, key, 0, i) = values[i];
      }
    }
    KvCache half(cache_options(kSizes, 640, KvStorage::bf16));
    const int64_t sequence = half.add();
    half.append(chunk_of(c, 0, sequence, 0, 600));
    const std::vector<float> got = contents(half, sequence);
    const auto at = [&](int64_t key, int64_t d) { return got[static_cast<size_t>(key * 48 + d)]; };
    for (const int64_t key : {int64_t{0}, int64_t{599}}) {
      EXPECT_TRUE(std::isnan(at(key, 0)) && std::isnan(at(key, 5)));
    }
    EXPECT_EQ(at(1, 1), -std::numeric_limits<float>::infinity());
    EXPECT_EQ(at(2, 2), std::numeric_limits<float>::infinity());
    EXPECT_TRUE(std::signbit(at(3, 3)) && at(3, 3) == 0.0F);
  });
}

TEST_F(KvCacheTest, ForkSharesPagesAndCopiesOnlyTheLastOneWhenItIsContinued) {
  const int64_t a = sequence_of(0, 300);
  EXPECT_EQ(cache.free_pages(), 2);
  const int64_t b = cache.fork(a);
  EXPECT_EQ(cache.free_pages(), 2);
  cache.append(chunk_of(c, 1, b, 300, 1));
  EXPECT_EQ(cache.free_pages(), 1);
  EXPECT_EQ(cache.pages(a)[1], cache.pages(b)[1]);
  EXPECT_NE(cache.pages(a)[2], cache.pages(b)[2]);
  EXPECT_EQ(contents(cache, a), expected_contents(c, 0, 300));
  std::vector<float> expected = expected_contents(c, 0, 300);
  const std::vector<float> other = expected_contents(c, 1, 301);
  expected.insert(expected.end(), other.end() - 48, other.end());
  EXPECT_EQ(contents(cache, b), expected);
  cache.append(chunk_of(c, 0, a, 300, 1));  // alone on its page now: no copy
  EXPECT_EQ(cache.free_pages(), 1);
  cache.remove(a);
  EXPECT_EQ(cache.free_pages(), 2);
  EXPECT_EQ(contents(cache, b), expected);
}

TEST_F(KvCacheTest, ForkOfWholePagesCopiesNothing) {
  const int64_t a = sequence_of(0, 2 * kPageKeys);
  const int64_t b = cache.fork(a);
  cache.append(chunk_of(c, 0, b, 2 * kPageKeys, 1));
  EXPECT_EQ(cache.free_pages(), 2);
}

TEST_F(KvCacheTest, AKeyWrittenAfterATruncationDoesNotShowInAFork) {
  const int64_t a = sequence_of(0, 200);
  const int64_t b = cache.fork(a);
  cache.truncate(b, 150);
  cache.append(chunk_of(c, 1, b, 150, 20));
  EXPECT_EQ(contents(cache, a), expected_contents(c, 0, 200));
}

TEST_F(KvCacheTest, ReorderMovesPageTables) {
  const int64_t a = sequence_of(0, 130);
  const int64_t b = sequence_of(1, 140);
  const std::vector<float> of_a = contents(cache, a);
  const std::vector<float> of_b = contents(cache, b);
  cache.reorder(std::vector{a, b}, std::vector<int64_t>{1, 0});
  EXPECT_EQ(contents(cache, a), of_b);
  EXPECT_EQ(contents(cache, b), of_a);
  EXPECT_EQ(cache.free_pages(), 1);
  cache.reorder(std::vector{a, b}, std::vector<int64_t>{0, 0});
  EXPECT_EQ(contents(cache, b), of_b);
  EXPECT_EQ(cache.free_pages(), 3);
}

TEST_F(KvCacheTest, GivesBackPagesAndNumbers) {
  const int64_t a = sequence_of(0, 600);
  EXPECT_EQ(cache.free_pages(), 0);
  cache.truncate(a, 129);
  EXPECT_EQ(cache.free_pages(), 3);
  EXPECT_EQ(cache.length(a), 129);
  cache.remove(a);
  EXPECT_EQ(cache.free_pages(), 5);
  EXPECT_FALSE(cache.contains(a));
  EXPECT_EQ(cache.add(), a);
  EXPECT_EQ(cache.length(a), 0);
}

TEST_F(KvCacheTest, TellsHowManyKeysFit) {
  const int64_t a = sequence_of(0, 200);
  EXPECT_EQ(cache.free_keys(a), 440);
  const int64_t b = cache.fork(a);
  EXPECT_EQ(cache.free_keys(b), 56 + 2 * kPageKeys);  // one page for the copy
  cache.append(chunk_of(c, 0, b, 200, cache.free_keys(b)));
  EXPECT_EQ(cache.free_keys(b), 0);
  EXPECT_EQ(cache.free_keys(a), 56);  // b has left their last page
}

TEST_F(KvCacheTest, AFullCacheSaysHowManyKeysFit) {
  const int64_t a = sequence_of(0, 600);
  const int64_t b = cache.add();
  expect_refused("KvCache::append", [&] { cache.append(chunk_of(c, 0, b, 0, 1)); }, {"full", "0 keys fit", "5 pages"});
  cache.truncate(a, 500);
  expect_refused("KvCache::append", [&] { cache.append(chunk_of(c, 0, b, 0, 200)); }, {"200 keys", "128 keys fit"});
}

// Two beams on one page: the first gets a copy, the second keeps the page. Exactly one free page is enough.
TEST_F(KvCacheTest, BeamsThatFillTheLastPageTogetherFit) {
  const int64_t a = sequence_of(0, 500);
  const int64_t b = cache.fork(a);
  cache.append(std::vector{chunk_of(c, 0, a, 500, 1), chunk_of(c, 1, b, 500, 1)});
  EXPECT_EQ(cache.free_pages(), 0);
  const int64_t third = cache.fork(a);
  expect_refused("KvCache::append", [&] { cache.append(chunk_of(c, 1, third, 501, 1)); }, {"full", "0 keys fit"});
}

TEST_F(KvCacheTest, AppendsAllChunksOrNone) {
  const int64_t a = sequence_of(0, 10);
  const int64_t b = sequence_of(1, 10);
  expect_refused("KvCache::append",
                 [&] {
                   cache.append(std::vector{chunk_of(c, 0, a, 10, 5), chunk_of(c, 1, b, 10, 550)});
                 },
                 {"full", "550 keys"});
  expect_refused("KvCache::append",
                 [&] {
                   cache.append(std::vector{chunk_of(c, 0, a, 10, 5), chunk_of(c, 1, a, 10, 5)});
                 },
                 {"twice"});
}

TEST_F(KvCacheTest, RefusesChunksThatDoNotContinueTheSequence) {
  const int64_t a = sequence_of(0, 10);
  expect_refused("KvCache::append", [&] { cache.append(chunk_of(c, 0, a, 9, 1)); },
                 {"position 9", "10 keys", "truncate"});
  expect_refused("KvCache::append", [&] { cache.append(chunk_of(c, 0, a, 11, 1)); },
                 {"position 11", "10 keys", "continue"});
}

TEST_F(KvCacheTest, RefusesRowsOfTheWrongShape) {
  const int64_t a = sequence_of(0, 10);
  KvChunk chunk = chunk_of(c, 0, a, 10, 2);
  chunk.v = chunk.v.slice(0, 0, 1);
  expect_refused("KvCache::append", [&] { cache.append(chunk); }, {"v has shape [1, 2, 19]", "[2, 2, 19]"});
  chunk = chunk_of(c, 0, a, 10, 2);
  chunk.k = chunk.k.slice(2, 0, 4);
  expect_refused("KvCache::append", [&] { cache.append(chunk); }, {"k has shape [2, 2, 4]", "[2, 2, 5]"});
  chunk.k = View<const float, 3>(nullptr, {2, 2, 5});
  expect_refused("KvCache::append", [&] { cache.append(chunk); }, {"null"});
  chunk.k = View<const float, 3>(c.k.data(), {2, 2, 5}, {10, 1, 2});
  expect_refused("KvCache::append", [&] { cache.append(chunk); }, {"contiguous"});
}

TEST_F(KvCacheTest, RefusesAForkOfAnEmptySequence) {
  const int64_t a = cache.add();
  expect_refused("KvCache::fork", [&] { cache.fork(a); }, {"empty"});
}

TEST_F(KvCacheTest, RefusesSequencesThatDoNotExist) {
  const int64_t a = sequence_of(0, 10);
  for (const int64_t none : {int64_t{-1}, int64_t{7}, int64_t{1000}}) {
    const std::vector<std::string> texts{"no sequence " + std::to_string(none)};
    expect_refused(
        "KvCache::length", [&] { cache.length(none); }, texts);
    expect_refused(
        "KvCache::pages", [&] { cache.pages(none); }, texts);
    expect_refused(
        "KvCache::free_keys", [&] { cache.free_keys(none); }, texts);
    expect_refused(
        "KvCache::remove", [&] { cache.remove(none); }, texts);
    expect_refused(
        "KvCache::truncate", [&] { cache.truncate(none, 0); }, texts);
    expect_refused(
        "KvCache::fork", [&] { cache.fork(none); }, texts);
    expect_refused(
        "KvCache::append", [&] { cache.append(chunk_of(c, 0, none, 0, 1)); }, texts);
    expect_refused(
        "KvCache::reorder",
        [&] {
          cache.reorder(std::vector{a, none}, std::vector<int64_t>{0, 0});
        },
        texts);
  }
}

TEST_F(KvCacheTest, RefusesReordersThatAreNone) {
  const int64_t a = sequence_of(0, 10);
  const int64_t b = sequence_of(1, 20);
  expect_refused("KvCache::reorder",
                 [&] {
                   cache.reorder(std::vector{a, b}, std::vector<int64_t>{0});
                 },
                 {"2 sequences", "1 par"});
  expect_refused("KvCache::reorder", [&] { cache.reorder(std::vector{a, a}, std::vector<int64_t>{0, 1}); }, {"twice"});
  expect_refused("KvCache::reorder",
                 [&] {
                   cache.reorder(std::vector{a, b}, std::vector<int64_t>{0, 2});
                 },
                 {"parent 2"});
}

TEST_F(KvCacheTest, RefusesTruncationsToMoreThanThereIs) {
  const int64_t a = sequence_of(0, 10);
  expect_refused("KvCache::truncate", [&] { cache.truncate(a, 11); }, {"11 keys", "10"});
  expect_refused("KvCache::truncate", [&] { cache.truncate(a, -1); }, {"-1 keys"});
}

TEST_F(KvCacheTest, RefusesMoreSequencesThanItWasGiven) {
  for (int i = 0; i < 32; ++i) cache.add();
  expect_refused("KvCache::add", [&] { cache.add(); }, {"all 32 sequences"});
}

TEST_F(KvCacheTest, RefusesOptionsThatMakeNoCache) {
  const auto refuse = [&](const char* text, const std::function<void(KvCacheOptions&)>& change) {
    KvCacheOptions options = cache_options(kSizes, 100);
    change(options);
    expect_refused("KvCache", [&] { KvCache made(options); }, {text});
  };
  refuse("capacity is 0", [](KvCacheOptions& o) { o.capacity = 0; });
  refuse("capacity is -5", [](KvCacheOptions& o) { o.capacity = -5; });
  refuse("sequences is 0", [](KvCacheOptions& o) { o.sequences = 0; });
  refuse("d_k", [](KvCacheOptions& o) { o.d_k = 0; });
  refuse("d_v", [](KvCacheOptions& o) { o.d_v = -1; });
  refuse("kv_heads", [](KvCacheOptions& o) { o.kv_heads = 0; });
  refuse("too many elements", [](KvCacheOptions& o) { o.d_k = o.capacity = int64_t{1} << 30, o.kv_heads = 1 << 20; });
  refuse("boundary", [&](KvCacheOptions& o) { o.memory = cache.layout().data + 4; });
}

TEST_F(KvCacheTest, EmptyChunksChangeNothing) {
  const int64_t a = sequence_of(0, 10);
  const int64_t b = cache.fork(a);
  const Snapshot before(cache);
  cache.append(chunk_of(c, 0, b, 10, 0));
  cache.append(std::span<const KvChunk>());
  EXPECT_TRUE(Snapshot(cache) == before);
}

TEST_F(KvCacheTest, MovesWithItsContents) {
  const int64_t a = sequence_of(0, 300);
  const KvCache moved = std::move(cache);
  EXPECT_EQ(contents(moved, a), expected_contents(c, 0, 300));
}

}  // namespace
}  // namespace heed::test
