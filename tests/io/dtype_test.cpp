#include "heed/io/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace heed::io {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

const Dtype& dtype(const char* name) { return *dtype_of_safetensors(name); }

template <class Stored>
std::vector<Stored> encoded(const char* name, const std::vector<float>& values) {
  std::vector<Stored> result(values.size());
  encode(dtype(name), values, std::as_writable_bytes(std::span(result)).data());
  return result;
}

TEST(Dtype, EveryPatternOf16BitsGoesToFloatAndBack) {
  std::vector<uint16_t> patterns(65536);
  for (size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<uint16_t>(i);
  for (const char* name : {"F16", "BF16"}) {
    SCOPED_TRACE(name);
    std::vector<float> values(patterns.size());
    ASSERT_EQ(decode(dtype(name), std::as_bytes(std::span(patterns)).data(), values), values.size());
    ASSERT_EQ(count_encodable(dtype(name), values), values.size()) << "NaN and ∞ too";
    const std::vector<uint16_t> back = encoded<uint16_t>(name, values);
    const uint16_t quiet = name[0] == 'F' ? 0x200 : 0x40;
    for (size_t i = 0; i < patterns.size(); ++i) {
      ASSERT_EQ(back[i], std::isnan(values[i]) ? patterns[i] | quiet : patterns[i]) << i;
    }
  }
}

TEST(Dtype, ConversionFromFloatRoundsToNearestEven) {
  EXPECT_EQ(encoded<uint16_t>("F16", {1.0F, 0x1.002p0F, 0x1.006p0F, -0x1p-25F, 0x1.8p-25F}),
            (std::vector<uint16_t>{0x3c00, 0x3c00, 0x3c02, 0x8000, 0x0001}));
  EXPECT_EQ(encoded<uint16_t>("BF16", {1.0F, 0x1.01p0F, 0x1.03p0F}), (std::vector<uint16_t>{0x3f80, 0x3f80, 0x3f82}));
  EXPECT_EQ(encoded<double>("F64", {0.1F, -kInfinity}), (std::vector<double>{0.1F, -kInfinity}));
  EXPECT_EQ(encoded<float>("F32", {0.1F, kInfinity}), (std::vector<float>{0.1F, kInfinity}));
}

// From half a step above the largest value on, the nearest is ∞.
TEST(Dtype, FiniteValuesBeyondTheRangeAreNotEncodable) {
  struct Case {
    const char* name;
    float least;  // of those that do not fit
  };
  for (const Case& each : {Case{"F16", 65520.0F}, Case{"BF16", 0x1.ffp127F}}) {
    SCOPED_TRACE(each.name);
    const float below = std::nextafter(each.least, 0.0F);
    EXPECT_EQ(count_encodable(dtype(each.name), std::vector{below, -below, kInfinity, -kInfinity, each.least}), 4U);
    EXPECT_EQ(count_encodable(dtype(each.name), std::vector{0.0F, -each.least}), 1U);
    EXPECT_EQ(count_encodable(dtype(each.name), std::vector{std::numeric_limits<float>::max()}), 0U);
  }
  EXPECT_EQ(count_encodable(dtype("F64"), std::vector{std::numeric_limits<float>::max()}), 1U);
  EXPECT_EQ(why_not_encoded(dtype("F16"), 70000.0F), "70000 is beyond the range of f16, ±65504");
  EXPECT_EQ(why_not_encoded(dtype("BF16"), -3.4e38F), "-3.4e+38 is beyond the range of bf16, ±3.39e38");
}

template <class Stored>
void expect_whole(const char* name) {
  SCOPED_TRACE(name);
  using Limits = std::numeric_limits<Stored>;
  const std::vector<Stored> stored = {0, 1, Limits::max(), Limits::min(), 77};
  std::vector<int64_t> values(stored.size());
  ASSERT_EQ(decode(dtype(name), std::as_bytes(std::span(stored)).data(), values), values.size());
  for (size_t i = 0; i < stored.size(); ++i) EXPECT_EQ(values[i], static_cast<int64_t>(stored[i]));
  EXPECT_TRUE(is_whole(dtype(name)));
}

TEST(Dtype, WholeNumbersAreExactAsI64) {
  expect_whole<int8_t>("I8");
  expect_whole<int16_t>("I16");
  expect_whole<int32_t>("I32");
  expect_whole<int64_t>("I64");
  expect_whole<uint8_t>("U8");
  expect_whole<uint16_t>("U16");
  expect_whole<uint32_t>("U32");
  for (const char* name : {"F16", "BF16", "F32", "F64", "F4", "C64"}) EXPECT_FALSE(is_whole(dtype(name))) << name;
}

TEST(Dtype, WhatI64CannotHoldIsNotDecoded) {
  const std::vector<uint64_t> stored = {uint64_t{1} << 62, uint64_t{1} << 63};
  const std::byte* bytes = std::as_bytes(std::span(stored)).data();
  std::vector<int64_t> values(2);
  EXPECT_EQ(decode(dtype("U64"), bytes, values), 1U);
  EXPECT_EQ(values[0], int64_t{1} << 62);
  EXPECT_EQ(why_not_i64(dtype("U64"), bytes + 8), "9223372036854775808 is beyond the range of i64");
  const std::vector<uint8_t> flags = {1, 0, 2};
  values.resize(3);
  EXPECT_EQ(decode(dtype("BOOL"), std::as_bytes(std::span(flags)).data(), values), 2U);
}

}  // namespace
}  // namespace heed::io
