// Numbers as somebody wrote them: the text says how exact they claim to be.
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
// where the exponent is beyond what a double holds.
double unit_of(std::string_view text);

// Digits behind the point that `unit` stands for: 2 for 0.01; 0 for 1 and more.
int decimals_of(double unit);

// A value beside a number written with `unit`: two digits more. "-inf" for -∞.
std::string beside_text(double value, double unit);
// Six digits at most, as few as say it.
std::string short_text(double value);

enum class Verdict {
  right,    // the exact value, rounded to the digits written: within half a unit
  cut,      // the exact value with its further digits dropped: within a unit, towards zero
  near,     // within two units: something before it had been rounded
  follows,  // not the exact value, but what the claimed steps before it give: an earlier slip, counted there
  wrong,
};

std::string_view verdict_name(Verdict verdict);

// right, cut, near or wrong. -∞ is right only for -∞.
Verdict grade(const WrittenNumber& number, double exact);

}  // namespace heed::explain
