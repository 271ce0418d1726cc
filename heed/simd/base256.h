// Base 256: attention keeps its scores as logarithms to base 256 = 2^8 instead of 2 or e. A natural logarithm shrinks
// to 0.18 of its value in base 256, even the largest float, so a score plus its biases is finite whenever each of them
// is a finite float. Dividing by a power of two is exact: an ordinary result has the same bits as in base 2.
#pragma once

namespace heed {

inline constexpr float kScoreBits = 8.0F;                          // log2 of the base
inline constexpr double kLog256E = 1.44269504088896340736 / 8.0;   // natural score → base 256
inline constexpr double kLogOf256 = 8.0 * 0.69314718055994530942;  // and back

}  // namespace heed
