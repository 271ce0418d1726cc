#include "heed/core/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/support/allocation_counter.h"
#include "tests/support/expect_error.h"

namespace heed {
namespace {

bool on_a_cache_line(const void* memory) { return reinterpret_cast<uintptr_t>(memory) % kAlignment == 0; }

TEST(Arena, HoldsNothingUntilAsked) { EXPECT_EQ(Arena().capacity_bytes(), 0U); }

TEST(Arena, GivesPartsOnCacheLinesThatDoNotOverlap) {
  Arena arena;
  std::vector<std::span<float>> parts;
  for (const int64_t count : {1, 15, 16, 17, 1000}) {
    parts.emplace_back(arena.take<float>(count), static_cast<size_t>(count));
    EXPECT_TRUE(on_a_cache_line(parts.back().data()));
    std::ranges::fill(parts.back(), static_cast<float>(count));
  }
  for (const std::span<float> part : parts) {
    for (const float value : part) EXPECT_EQ(value, static_cast<float>(part.size()));
  }
  auto* bytes = arena.take<std::byte>(3);
  EXPECT_TRUE(on_a_cache_line(bytes));
  EXPECT_TRUE(on_a_cache_line(arena.take<double>(1)));
}

TEST(Arena, ScopesGiveBackWhatWasTakenInThem) {
  Arena arena;
  const Arena::Scope all(arena);
  float* kept = arena.take<float>(100);
  kept[99] = 7.0F;
  const size_t used = arena.used_bytes();
  float* first = nullptr;
  for (int i = 0; i < 2; ++i) {
    const Arena::Scope outer(arena);
    float* a = arena.take<float>(10);
    {
      const Arena::Scope inner(arena);
      arena.take<float>(5000)[4999] = 1.0F;
    }
    EXPECT_EQ(arena.used_bytes(), used + 64);
    EXPECT_TRUE(i == 0 || a == first);
    first = a;
  }
  EXPECT_EQ(arena.used_bytes(), used);
  EXPECT_EQ(kept[99], 7.0F);
}

TEST(Arena, AllocatesNothingAfterTheFirstTime) {
  Arena arena;
  const auto call = [&] {
    const Arena::Scope scope(arena);
    for (int64_t count = 1; count < 100000; count *= 3) arena.take<float>(count)[count - 1] = 1.0F;
  };
  call();
  const int64_t allocations = test::allocation_count();
  call();
  EXPECT_EQ(test::allocation_count(), allocations);
}

TEST(Arena, IsOneBlockOfWhatWasUsedOnceAllIsGivenBack) {
  Arena arena;
  {
    const Arena::Scope scope(arena);
    for (int i = 0; i < 10; ++i) arena.take<float>(1000);
    EXPECT_GE(arena.capacity_bytes(), 40000U);
  }
  EXPECT_EQ(arena.used_bytes(), 0U);
  EXPECT_EQ(arena.capacity_bytes(), 10U * 4032);
}

TEST(Arena, GrowsPastBlocksThatAreTooSmall) {
  Arena arena;
  const Arena::Scope all(arena);
  arena.take<float>(16);
  {
    const Arena::Scope scope(arena);
    arena.take<float>(16)[15] = 1.0F;
    arena.take<float>(16)[15] = 1.0F;
  }
  float* large = arena.take<float>(1 << 16);
  large[(1 << 16) - 1] = 2.0F;
  EXPECT_EQ(arena.used_bytes(), 64U + (4U << 16));
}

TEST(Arena, OfTheCallersMemoryDoesNotGrow) {
  alignas(64) float memory[32];
  Arena arena(memory, sizeof(memory));
  EXPECT_EQ(arena.capacity_bytes(), sizeof(memory));
  {
    const Arena::Scope scope(arena);
    EXPECT_EQ(arena.take<float>(16), memory);
    EXPECT_EQ(arena.take<float>(1), memory + 16);
    test::expect_error([&] { arena.take<float>(1); }, {"Arena: ", "64 bytes more", "0 are left"});
  }
  EXPECT_EQ(arena.take<float>(32), memory);
  test::expect_error([&] { Arena(nullptr, 32); }, {"Arena: ", "null"});
  test::expect_error([&] { Arena(memory + 1, 16); }, {"Arena: ", "boundary of 64"});
}

TEST(Arena, RefusesSizesThatNoMemoryHas) {
  Arena arena;
  test::expect_error([&] { arena.take<double>(int64_t{1} << 62); }, {"Arena: ", "8 bytes"});
  test::expect_error([&] { arena.take<float>(-1); }, {"Arena: ", "-1"});
}

TEST(Arena, DryRunCountsWhatTheSameTakesNeed) {
  const auto take = [](Arena& arena) {
    arena.take<float>(7);
    arena.take<std::byte>(65);
    arena.take<double>(0);
  };
  Arena dry = Arena::dry_run();
  take(dry);
  EXPECT_EQ(dry.take<float>(1), nullptr);
  EXPECT_EQ(dry.used_bytes(), 64U + 128U + 64U);
  alignas(64) std::byte memory[192];
  Arena exact(memory, sizeof(memory));
  take(exact);
  EXPECT_EQ(exact.used_bytes(), sizeof(memory));
}

TEST(Arena, DryRunOfNestedScopesFindsThePeak) {
  Arena dry = Arena::dry_run();
  dry.take<float>(16);
  for (const int64_t floats : {160, 32}) {
    const Arena::Scope scope(dry);
    dry.take<float>(floats);
  }
  EXPECT_EQ(dry.used_bytes(), 64U);
  EXPECT_EQ(dry.peak_bytes(), 64U + 640U);
}

TEST(CallArena, TakesFromTheCallersAndGivesBack) {
  Arena arena;
  {
    CallArena call(&arena);
    call->take<float>(16);
    EXPECT_EQ(arena.used_bytes(), 64U);
  }
  EXPECT_EQ(arena.used_bytes(), 0U);
  CallArena own(nullptr);
  own->take<float>(16)[15] = 1.0F;
  EXPECT_EQ(arena.used_bytes(), 0U);
  Arena dry = Arena::dry_run();
  test::expect_error([&] { CallArena refused(&dry); }, {"Arena: ", "dry run"});
}

TEST(WorkerArenas, AreApartAndBeginEmpty) {
  Arena arena;
  const WorkerArenas workers(arena, 3, 100);
  Arena first = workers.of(0);
  Arena second = workers.of(1);
  EXPECT_EQ(first.capacity_bytes(), 128U);
  EXPECT_EQ(first.take<std::byte>(100) + 128, second.take<std::byte>(100));
  EXPECT_EQ(workers.of(0).used_bytes(), 0U);
  EXPECT_EQ(WorkerArenas(arena, 3, 0).of(2).capacity_bytes(), 0U);
}

}  // namespace
}  // namespace heed
