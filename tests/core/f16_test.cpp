#include "heed/core/f16.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace heed {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The definition: (-1)^sign · 2^(exponent - 15) · 1.fraction, and 2^-14 · 0.fraction where the exponent is 0.
double defined_value(uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 0x1fU);
  const int fraction = static_cast<int>(bits & 0x3ffU);
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000U) != 0 ? -magnitude : magnitude;
}

TEST(F16, EveryPatternWidensToItsValueAndComesBack) {
  for (uint32_t bits = 0; bits <= 0xffffU; ++bits) {
    const float wide = from_f16(static_cast<uint16_t>(bits));
    ASSERT_EQ(std::signbit(wide), (bits & 0x8000U) != 0) << bits;
    if ((bits & 0x7fffU) > 0x7c00U) {
      ASSERT_TRUE(std::isnan(wide)) << bits;
      ASSERT_EQ(to_f16(wide), bits | 0x200U) << "NaN becomes quiet and keeps its payload";
      continue;
    }
    if ((bits & 0x7fffU) == 0x7c00U) {
      ASSERT_EQ(std::abs(wide), kInfinity);
    } else {
      ASSERT_EQ(wide, defined_value(bits)) << bits;
    }
    ASSERT_EQ(to_f16(wide), bits);
  }
}

// Between neighbours the half-way point goes to the even one, and the floats beside it to the nearer one. Rounding is
// monotonic, so this fixes every float.
TEST(F16, RoundsToNearestEven) {
  for (uint32_t below = 0; below < 0x7c00U; ++below) {
    const uint32_t above = below + 1;
    const double top = above == 0x7c00U ? 65536.0 : defined_value(above);
    const auto middle = static_cast<float>((defined_value(below) + top) / 2);  // exact
    const float under = std::nextafter(middle, 0.0F), over = std::nextafter(middle, kInfinity);
    for (const uint32_t sign : {0U, 0x8000U}) {
      const float factor = sign == 0 ? 1.0F : -1.0F;
      ASSERT_EQ(to_f16(factor * under), sign | below) << below;
      ASSERT_EQ(to_f16(factor * middle), sign | (below % 2 == 0 ? below : above)) << below;
      ASSERT_EQ(to_f16(factor * over), sign | above) << below;
    }
  }
}

TEST(F16, TinyValuesBecomeZeroWithTheirSign) {
  EXPECT_EQ(to_f16(0x1p-25F), 0U);
  EXPECT_EQ(to_f16(-std::numeric_limits<float>::denorm_min()), 0x8000U);
  EXPECT_EQ(to_f16(-0.0F), 0x8000U);
}

TEST(F16, NanStaysNanAndWhatIsTooLargeBecomesInfinity) {
  EXPECT_TRUE(std::isnan(from_f16(to_f16(std::bit_cast<float>(0x7f800001U)))));
  EXPECT_TRUE(std::isnan(from_f16(to_f16(std::bit_cast<float>(0xffffffffU)))));
  EXPECT_EQ(to_f16(65519.996F), 0x7bffU);
  EXPECT_EQ(to_f16(65520.0F), 0x7c00U);
  EXPECT_EQ(to_f16(-std::numeric_limits<float>::max()), 0xfc00U);
  EXPECT_EQ(to_f16(kInfinity), 0x7c00U);
}

}  // namespace
}  // namespace heed
