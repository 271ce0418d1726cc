#include "heed/explain/written.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace heed::explain {

double unit_of(std::string_view text) {
  const size_t e = std::min(text.find_first_of("eE"), text.size());
  int exponent = 0;
  if (e + 1 < text.size()) {
    const size_t begin = e + (text[e + 1] == '+' ? 2 : 1);
    std::string digits(text.substr(begin));
    digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
    if (error == std::errc::result_out_of_range) return digits.front() == '-' ? 0.0 : HUGE_VAL;
  }
  const std::string_view mantissa = text.substr(0, e);
  const size_t point = mantissa.find('.');
  if (point != std::string_view::npos) {
    const std::string_view decimals = mantissa.substr(point + 1);
    exponent -= static_cast<int>(std::count_if(decimals.begin(), decimals.end(), [](char c) { return c != '_'; }));
  }
  return std::pow(10.0, exponent);
}

int decimals_of(double unit) { return std::max(0, static_cast<int>(std::lround(-std::log10(unit)))); }

std::string beside_text(double value, double unit) {
  constexpr double kMost = 1e15;
  if (!std::isfinite(value) || std::abs(value) >= kMost) return short_text(value);
  std::array<char, 64> text{};
  const int digits = std::min(decimals_of(unit) + 2, 17);
  const int length = std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  const std::string_view shown(text.data(), static_cast<size_t>(length));
  const bool is_zero = shown.find_first_not_of("-0.") == std::string_view::npos;
  return std::string(shown.substr(is_zero && shown.front() == '-' ? 1 : 0));  // no "-0.00"
}

std::string short_text(double value) {
  std::array<char, 32> text{};
  const int length = std::snprintf(text.data(), text.size(), "%.6g", value);
  return {text.data(), static_cast<size_t>(length)};
}

std::string_view verdict_name(Verdict verdict) {
  constexpr std::array<std::string_view, 5> kNames = {"right", "cut", "near", "follows", "wrong"};
  return kNames[static_cast<size_t>(verdict)];
}

Verdict grade(const WrittenNumber& number, double exact) {
  if (std::isinf(number.value) || std::isinf(exact)) return number.value == exact ? Verdict::right : Verdict::wrong;
  // What double arithmetic may have added: without it a tie such as 0.085 would fall to either side.
  const double slack = 1e-9 * number.unit + 1e-13 * std::abs(exact);
  const double difference = std::abs(number.value - exact);
  if (difference <= 0.5 * number.unit + slack) return Verdict::right;
  const bool towards_zero = std::abs(number.value) < std::abs(exact) && number.value * exact >= 0.0;
  if (towards_zero && difference < number.unit - slack) return Verdict::cut;
  return difference <= 2.0 * number.unit + slack ? Verdict::near : Verdict::wrong;
}

}  // namespace heed::explain
