#include "bench/process.h"

#include <gtest/gtest.h>

#include <memory>

namespace heed::bench {
namespace {

// Uses 64 MB and gives them back.
void use_memory() {
  constexpr size_t kBytes = 64'000'000;
  const std::unique_ptr<volatile char[]> memory(new volatile char[kBytes]);
  for (size_t i = 0; i < kBytes; i += 1024) memory[i] = 1;
}

TEST(ResidentGrowth, SeesMemoryThatWasGivenBack) {
  const double growth = resident_growth_mb(use_memory);
  EXPECT_GT(growth, 60);
  EXPECT_LT(growth, 600);  // sanitizers keep books of their own
}

TEST(ResidentGrowth, IsThatOfTheCallAndNotOfAnEarlierOne) {
  use_memory();
  EXPECT_LT(resident_growth_mb([] {}), 10);
}

TEST(WaitingSeconds, NeverFall) {
  const double before = waiting_seconds();
  EXPECT_GE(before, 0);
  use_memory();
  EXPECT_GE(waiting_seconds(), before);
}

}  // namespace
}  // namespace heed::bench
