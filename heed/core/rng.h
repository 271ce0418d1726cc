// Rng: a counter-based random number generator. The value at (seed, counter) is the same on every machine, thread and
// code path.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

namespace heed {

class Rng {
 public:
  explicit Rng(uint64_t seed) : seed_(mix(seed + kSeedOffset)) {}

  // 64 random bits for a counter (Steele, Lea and Flood's SplitMix64 finaliser, keyed by the seed).
  uint64_t bits(uint64_t counter) const { return mix(seed_ ^ mix(counter * kStep + kStep)); }

  // Uniform in [0, 1), 24 bits.
  float uniform(uint64_t counter) const { return static_cast<float>(bits(counter) >> 40) * 0x1p-24F; }

  // Normal, mean 0 and variance 1 (Box and Muller).
  float normal(uint64_t counter) const {
    const uint64_t random = bits(counter);
    const double radius = std::sqrt(-2.0 * std::log((static_cast<double>(random >> 32) + 1.0) * 0x1p-32));
    const double angle = static_cast<double>(random & 0xffffffffU) * (0x1p-31 * 3.14159265358979323846);
    return static_cast<float>(radius * std::cos(angle));
  }

  // Fills with the normal values at counters 0, 1, …
  void fill_normal(std::span<float> values, float deviation = 1.0F) const {
    uint64_t counter = 0;
    for (float& value : values) value = deviation * normal(counter++);
  }

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15ULL;  // 2^64 / golden ratio
  // 2^64 / √3. Must differ from kStep: otherwise seed 0 and counter 0 would cancel to 0.
  static constexpr uint64_t kSeedOffset = 0x93cd3a2c8198e269ULL;

  static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  }

  uint64_t seed_;
};

}  // namespace heed
