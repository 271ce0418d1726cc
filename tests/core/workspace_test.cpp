#include "heed/core/workspace.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/support/allocation_counter.h"
#include "tests/support/expect_error.h"

namespace heed {
namespace {

TEST(Workspace, HoldsNothingUntilAsked) { EXPECT_EQ(Workspace().capacity_bytes(), 0U); }

TEST(Workspace, GivesFloatsOnACacheLine) {
  Workspace workspace;
  for (const size_t count : {1U, 3U, 1000U}) {
    float* floats = workspace.floats(count);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(floats) % kAlignment, 0U);
    floats[0] = floats[count - 1] = 1.0F;
    EXPECT_GE(workspace.capacity_bytes(), count * sizeof(float));
  }
}

TEST(Workspace, OnTheCallersMemoryGivesThatAndRefusesMore) {
  alignas(kAlignment) float memory[32];
  Workspace workspace(memory, 32);
  EXPECT_EQ(workspace.floats(32), memory);
  test::expect_error([&] { workspace.floats(33); }, {"Workspace: ", "33", "32"});
  test::expect_error([&] { Workspace(nullptr, 32); }, {"Workspace: ", "null"});
  test::expect_error([&] { Workspace(memory + 1, 16); }, {"Workspace: ", "boundary of 64"});
}

TEST(Workspace, KeepsItsMemoryForCallsThatNeedNoMore) {
  Workspace workspace;
  float* first = workspace.floats(100);
  const int64_t before = test::allocation_count();
  EXPECT_EQ(workspace.floats(100), first);
  EXPECT_EQ(workspace.floats(7), first);
  EXPECT_EQ(test::allocation_count(), before);
  EXPECT_EQ(workspace.capacity_bytes(), 100 * sizeof(float));
}

TEST(Workspace, OfTheCallersMemoryDoesNotGrow) {
  alignas(kAlignment) float memory[32];
  Workspace workspace(memory, 32);
  EXPECT_EQ(workspace.floats(32), memory);
  EXPECT_EQ(workspace.floats(1), memory);
  EXPECT_THROW(workspace.floats(33), Error);
  EXPECT_EQ(workspace.capacity_bytes(), sizeof(memory));
}

TEST(Workspace, Grows) {
  Workspace workspace;
  workspace.floats(10);
  const int64_t before = test::allocation_count();
  workspace.floats(1000)[999] = 1.0F;
  EXPECT_EQ(test::allocation_count(), before + 1);
}

TEST(Memory, RoundsUp) {
  EXPECT_EQ(round_up(0, 8), 0);
  EXPECT_EQ(round_up(1, 8), 8);
  EXPECT_EQ(round_up(8, 8), 8);
  EXPECT_EQ(divide_up(9, 8), 2);
  EXPECT_EQ(divide_up(8, 8), 1);
}

}  // namespace
}  // namespace heed
