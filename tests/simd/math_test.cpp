// The vector maths against double references. By default: every float of the binades around 1 and a stride through all
// others. The complete sweep over all 2^32 floats takes minutes; it made the bounds below:
//     HEED_COMPLETE_SWEEP=1 build/tests/heed_simd_tests --gtest_filter='VectorMath.*'
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "heed/parallel/parallel_for.h"
#include "heed/simd/dispatch.h"
#include "tests/simd/math_kernel.h"
#include "tests/support/every_isa.h"

namespace heed::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

double reference(MathFunction function, double x) {
  switch (function) {
    case MathFunction::exp256:
      return std::exp2(8.0 * x);
    case MathFunction::exp:
      return std::exp(x);
    case MathFunction::log:
      return std::log(x);
    case MathFunction::tanh:
      return std::tanh(x);
    case MathFunction::erf:
      return std::erf(x);
    case MathFunction::sigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case MathFunction::sigmoid_base256:
      return 1.0 / (1.0 + std::exp2(-8.0 * x));
  }
  return 0.0;
}

bool is_exponential(MathFunction function) {
  return function == MathFunction::exp256 || function == MathFunction::exp || function == MathFunction::sigmoid ||
         function == MathFunction::sigmoid_base256;
}

// |value - expected| in units of the last place of a float near `expected`; ∞ counts as 2^128. 1e9 where one is NaN
// and the other is not, or where an exponential is not flushed to 0 as promised.
double error_in_ulp(MathFunction function, float value, double expected) {
  if (std::isnan(expected) || std::isnan(value)) return std::isnan(expected) == std::isnan(value) ? 0.0 : 1e9;
  if (is_exponential(function)) {
    if (expected < 0x1p-126) return value == 0.0F ? 0.0 : 1e9;
    if (expected < 0x1.6a0ap-126 && value == 0.0F) return 0.0;  // 2^-125.5
  }
  const double got = std::isinf(value) ? std::copysign(0x1p128, value) : static_cast<double>(value);
  const double wanted = std::clamp(expected, -0x1p128, 0x1p128);
  const double size = std::clamp(std::abs(wanted), 0x1p-126, 0x1.fffffep127);
  return std::abs(got - wanted) * std::exp2(23 - std::ilogb(size));
}

struct Worst {
  double ulp = 0.0;
  float at = 0.0F;

  void take(double error, float x) {
    if (error > ulp) *this = {error, x};
  }
};

// Every stride-th float by bits from `first` to `last`, `chunk` at a time, on every instruction set.
class Sweep {
 public:
  explicit Sweep(MathFunction function) : function_(function), worst_(supported_isas().size()) {}

  void run(uint32_t first, uint32_t last, uint32_t stride) {
    const uint64_t count = (static_cast<uint64_t>(last) - first) / stride + 1;
    for (uint64_t begin = 0; begin < count; begin += kChunk) {
      for (size_t i = 0; i < kChunk; ++i) {
        const uint64_t at = std::min(begin + i, count - 1);
        in_[i] = std::bit_cast<float>(static_cast<uint32_t>(first + at * stride));
      }
      parallel_for(kChunk / kPart, [&](int64_t part, int) {
        for (size_t i = static_cast<size_t>(part) * kPart; i < (static_cast<size_t>(part) + 1) * kPart; ++i) {
          expected_[i] = reference(function_, static_cast<double>(in_[i]));
        }
      });
      compare();
    }
  }

  // The largest error, which no instruction set may exceed: `fused` with fused multiply-add, `plain` without.
  void expect_within(double fused, double plain) const {
    for (size_t i = 0; i < worst_.size(); ++i) {
      const std::string name(isa_name(supported_isas()[i]));
      EXPECT_LE(worst_[i].ulp, supported_isas()[i] == Isa::baseline ? plain : fused)
          << name << " at " << worst_[i].at << " (bits " << std::bit_cast<uint32_t>(worst_[i].at) << ")";
      ::testing::Test::RecordProperty("ulp_" + name, std::to_string(worst_[i].ulp));
    }
  }

 private:
  static constexpr size_t kChunk = 1 << 18;
  static constexpr size_t kPart = 1 << 12;

  void compare() {
    size_t index = 0;
    on_every_isa([&] {
      dispatch([&]<Isa isa>() { math_kernel<isa>(function_, in_.data(), out_.data(), kChunk); });
      for (size_t i = 0; i < kChunk; ++i) {
        worst_[index].take(error_in_ulp(function_, out_[i], expected_[i]), in_[i]);
      }
      ++index;
    });
  }

  MathFunction function_;
  std::vector<Worst> worst_;
  std::vector<float> in_ = std::vector<float>(kChunk);
  std::vector<float> out_ = std::vector<float>(kChunk);
  std::vector<double> expected_ = std::vector<double>(kChunk);
};

void expect_accurate(MathFunction function, double fused, double plain) {
  Sweep sweep(function);
  if (std::getenv("HEED_COMPLETE_SWEEP") != nullptr) {
    sweep.run(0, 0xffffffff, 1);
  } else {
    sweep.run(0x3f000000, 0x3fffffff, 1);  // [½, 2)
    sweep.run(0xbf000000, 0xbfffffff, 1);  // (-2, -½]
    sweep.run(0, 0xffffffff, 257);         // NaN with many payloads among them
  }
  sweep.expect_within(fused, plain);
}

TEST(VectorMath, Exp256IsAccurateForAllFloats) { expect_accurate(MathFunction::exp256, 2.0, 2.3); }
TEST(VectorMath, ExpIsAccurateForAllFloats) { expect_accurate(MathFunction::exp, 1.1, 1.1); }
TEST(VectorMath, LogIsAccurateForAllFloats) { expect_accurate(MathFunction::log, 0.9, 0.9); }
TEST(VectorMath, TanhIsAccurateForAllFloats) { expect_accurate(MathFunction::tanh, 1.4, 1.4); }
TEST(VectorMath, ErfIsAccurateForAllFloats) { expect_accurate(MathFunction::erf, 1.2, 1.4); }
TEST(VectorMath, SigmoidIsAccurateForAllFloats) { expect_accurate(MathFunction::sigmoid, 2.5, 2.5); }
// An error of 256^-x just above a power of two is twice as many units of its reciprocal, just below one.
TEST(VectorMath, SigmoidBase256IsAccurateForAllFloats) { expect_accurate(MathFunction::sigmoid_base256, 4.9, 3.5); }

// function(x), the same in every lane.
float value_of(MathFunction function, float x) {
  std::array<float, kMathBlock> in;
  std::array<float, kMathBlock> out;
  in.fill(x);
  dispatch([&]<Isa isa>() { math_kernel<isa>(function, in.data(), out.data(), kMathBlock); });
  for (const float each : out) EXPECT_EQ(std::bit_cast<uint32_t>(each), std::bit_cast<uint32_t>(out[0]));
  return out[0];
}

TEST(VectorMath, SpecialValuesAreExactWithTheirSign) {
  struct Case {
    MathFunction function;
    float x;
    float value;
  };
  const Case cases[] = {
      {MathFunction::exp256, 0.0F, 1.0F},
      {MathFunction::exp256, -0.0F, 1.0F},
      {MathFunction::exp256, kInfinity, kInfinity},
      {MathFunction::exp256, -kInfinity, 0.0F},
      {MathFunction::exp256, 16.0F, kInfinity},
      {MathFunction::exp256, 1e30F, kInfinity},
      {MathFunction::exp256, -15.8125F, 0.0F},
      {MathFunction::exp256, -18.625F, 0.0F},
      {MathFunction::exp256, -1e30F, 0.0F},
      {MathFunction::exp, 0.0F, 1.0F},
      {MathFunction::exp, -0.0F, 1.0F},
      {MathFunction::exp, kInfinity, kInfinity},
      {MathFunction::exp, -kInfinity, 0.0F},
      {MathFunction::exp, 88.73F, kInfinity},
      {MathFunction::exp, 1000.0F, kInfinity},
      {MathFunction::exp, -87.4F, 0.0F},
      {MathFunction::exp, -1000.0F, 0.0F},
      {MathFunction::log, 1.0F, 0.0F},
      {MathFunction::log, 0.0F, -kInfinity},
      {MathFunction::log, -0.0F, -kInfinity},
      {MathFunction::log, kInfinity, kInfinity},
      {MathFunction::tanh, 0.0F, 0.0F},
      {MathFunction::tanh, -0.0F, -0.0F},
      {MathFunction::tanh, kInfinity, 1.0F},
      {MathFunction::tanh, -kInfinity, -1.0F},
      {MathFunction::tanh, 10.0F, 1.0F},
      {MathFunction::tanh, -10.0F, -1.0F},
      {MathFunction::erf, 0.0F, 0.0F},
      {MathFunction::erf, -0.0F, -0.0F},
      {MathFunction::erf, kInfinity, 1.0F},
      {MathFunction::erf, -kInfinity, -1.0F},
      {MathFunction::erf, 4.0F, 1.0F},
      {MathFunction::erf, -4.0F, -1.0F},
      {MathFunction::sigmoid, 0.0F, 0.5F},
      {MathFunction::sigmoid, -0.0F, 0.5F},
      {MathFunction::sigmoid, kInfinity, 1.0F},
      {MathFunction::sigmoid, -kInfinity, 0.0F},
      {MathFunction::sigmoid, 100.0F, 1.0F},
      {MathFunction::sigmoid, -100.0F, 0.0F},
      {MathFunction::sigmoid_base256, 0.0F, 0.5F},
      {MathFunction::sigmoid_base256, kInfinity, 1.0F},
      {MathFunction::sigmoid_base256, -kInfinity, 0.0F},
      {MathFunction::sigmoid_base256, 25.0F, 1.0F},
      {MathFunction::sigmoid_base256, -15.875F, 0.0F},
  };
  on_every_isa([&] {
    for (const Case& c : cases) {
      EXPECT_EQ(std::bit_cast<uint32_t>(value_of(c.function, c.x)), std::bit_cast<uint32_t>(c.value))
          << "function " << static_cast<int>(c.function) << " of " << c.x;
    }
  });
}

TEST(VectorMath, NanStaysNanWhateverItsPayload) {
  const uint32_t nans[] = {0x7fc00000, 0xffc00000, 0x7f800001, 0xff800001, 0x7fffffff, 0xffffffff, 0x7fc0007e};
  on_every_isa([&] {
    for (int function = 0; function <= static_cast<int>(MathFunction::sigmoid_base256); ++function) {
      for (const uint32_t bits : nans) {
        EXPECT_TRUE(std::isnan(value_of(static_cast<MathFunction>(function), std::bit_cast<float>(bits))))
            << "function " << function << " of " << bits;
      }
    }
  });
}

TEST(VectorMath, LogOfANegativeNumberIsNan) {
  on_every_isa([] {
    for (const float x : {-1e-45F, -1e-38F, -1.0F, -1e38F, -kInfinity}) {
      EXPECT_TRUE(std::isnan(value_of(MathFunction::log, x))) << x;
    }
  });
}

TEST(VectorMath, Exp256OfAnEighthIsExact) {
  on_every_isa([] {
    for (int n = -125; n <= 127; ++n) {
      EXPECT_EQ(value_of(MathFunction::exp256, static_cast<float>(n) / 8.0F), std::ldexp(1.0F, n)) << n;
    }
  });
}

}  // namespace
}  // namespace heed::test
