#include "heed/core/bf16.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace heed {
namespace {

// Of the two bf16 around a float, the nearer; of two equally near, the one with an even last bit.
uint16_t nearest(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto below = static_cast<uint16_t>(bits >> 16);
  const auto above = static_cast<uint16_t>(below + 1);
  const uint32_t rest = bits & 0xffffU;
  if (rest != 0x8000U) return rest < 0x8000U ? below : above;
  return below % 2 == 0 ? below : above;
}

TEST(Bf16, RoundsToNearestEven) {
  for (uint64_t bits = 0; bits < 0x7f7f8000U; bits += 1021) {  // the largest that does not round to ∞
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    ASSERT_EQ(to_bf16(value), nearest(value)) << bits;
    ASSERT_EQ(to_bf16(-value), nearest(-value)) << bits;
  }
  for (uint32_t upper = 0; upper < 0x7f7fU; ++upper) {  // half way
    const auto value = std::bit_cast<float>(upper << 16 | 0x8000U);
    ASSERT_EQ(to_bf16(value), nearest(value)) << upper;
  }
}

TEST(Bf16, WideningIsExact) {
  for (uint32_t bits = 0; bits <= 0xffffU; ++bits) {
    const float wide = from_bf16(static_cast<uint16_t>(bits));
    if (std::isnan(wide)) continue;
    ASSERT_EQ(to_bf16(wide), bits);
  }
}

TEST(Bf16, NanStaysNanAndInfinityInfinity) {
  EXPECT_TRUE(std::isnan(from_bf16(to_bf16(std::bit_cast<float>(0x7f800001U)))));
  EXPECT_TRUE(std::isnan(from_bf16(to_bf16(std::bit_cast<float>(0xffffffffU)))));
  EXPECT_EQ(from_bf16(to_bf16(std::numeric_limits<float>::infinity())), std::numeric_limits<float>::infinity());
  EXPECT_EQ(from_bf16(to_bf16(-std::numeric_limits<float>::max())), -std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace heed
