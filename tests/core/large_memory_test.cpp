#include "heed/core/large_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <new>

namespace heed {
namespace {

TEST(LargeMemory, IsZerosOnAHugePageBoundary) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{5000}, (size_t{2} << 20) + 1}) {
    const LargeMemory memory = allocate_large(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.get()) % (size_t{2} << 20), 0U);
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(memory.get()[i], std::byte{0});
    for (size_t i = 0; i < bytes; ++i) memory.get()[i] = std::byte{1};
  }
}

TEST(LargeMemory, ThrowsWhereThereIsNoMore) {
  EXPECT_THROW(allocate_large(std::numeric_limits<size_t>::max()), std::bad_alloc);
  EXPECT_THROW(allocate_large(std::numeric_limits<size_t>::max() / 2), std::bad_alloc);
}

}  // namespace
}  // namespace heed
