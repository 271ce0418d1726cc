// Numbers as written in a claim: their digits say how precise they claim to be.
#pragma once

#include <string>
#include <string_view>

namespace heed::explain {

struct WrittenNumber {
  double value = 0.0;
  double unit = 1.0;  // one unit of the last written digit: 0.01 for 0.50, 10 for 1.2e2
  std::string text;   // as written
  int line = 0;       // of the file, from 1; 0: not from a file
};

// One unit of the last digit of a decimal number: 0.50 → 0.01, 1e-3 → 0.001, 12 → 1. Underscores do not count. 0 or ∞
// if the exponent is out of range for a double.
double unit_of(std::string_view text);

// The number of decimals for `unit`: 2 for 0.01; 0 for 1 and more.
int decimals_of(double unit);

// A value to show beside a number written with `unit`, with two more digits. "-inf" for -∞.
std::string beside_text(double value, double unit);
// At most six digits, without trailing zeros.
std::string short_text(double value);

enum class Verdict {
  right,    // the exact value rounded to the written digits: within half a unit
  cut,      // the exact value truncated to the written digits: within a unit, towards zero
  near,     // within two units: an earlier value was rounded
  follows,  // not the exact value, but what the claimed earlier steps give: the slip is counted there
  wrong,
};

std::string_view verdict_name(Verdict verdict);

// right, cut, near or wrong. -∞ is right only for -∞.
Verdict grade(const WrittenNumber& number, double exact);

}  // namespace heed::explain
