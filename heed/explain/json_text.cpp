#include "heed/explain/json_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace heed::explain {
namespace {

template <class Number>
void put_number(std::string& text, Number number) {
  std::array<char, 32> digits{};
  text.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr);
}

template <class Number>
void put_finite(std::string& text, Number number) {
  if (std::isfinite(number)) {
    put_number(text, number);
  } else {
    text += "null";
  }
}

// put(value) for each, in arrays in arrays.
template <class Put>
void put_nested(JsonText& to, std::span<const float> values, std::span<const int64_t> shape, const Put& put) {
  to.begin_array();
  const size_t each = shape[0] == 0 ? 0 : values.size() / static_cast<size_t>(shape[0]);
  for (size_t i = 0; i < static_cast<size_t>(shape[0]); ++i) {
    const auto part = values.subspan(i * each, each);
    if (shape.size() == 1) {
      put(part[0]);
    } else {
      put_nested(to, part, shape.subspan(1), put);
    }
  }
  to.end_array();
}

}  // namespace

void JsonText::separate() {
  if (!first_) text_ += ',';
  first_ = false;
}

JsonText& JsonText::open(char bracket) {
  separate();
  text_ += bracket;
  first_ = true;
  return *this;
}

JsonText& JsonText::close(char bracket) {
  text_ += bracket;
  first_ = false;
  return *this;
}

JsonText& JsonText::line() {
  if (!first_) text_ += ',';
  text_ += '\n';
  first_ = true;
  return *this;
}

JsonText& JsonText::key(std::string_view name) {
  value(name);
  text_ += ':';
  first_ = true;
  return *this;
}

JsonText& JsonText::value(std::string_view text) {
  separate();
  text_ += nlohmann::json(std::string(text)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return *this;
}

JsonText& JsonText::value(bool flag) {
  separate();
  text_ += flag ? "true" : "false";
  return *this;
}

JsonText& JsonText::value(int64_t number) {
  separate();
  put_number(text_, number);
  return *this;
}

JsonText& JsonText::value(float number) {
  separate();
  put_finite(text_, number);
  return *this;
}

JsonText& JsonText::value(double number) {
  separate();
  put_finite(text_, number);
  return *this;
}

JsonText& JsonText::nested(std::span<const float> values, std::span<const int64_t> shape) {
  put_nested(*this, values, shape, [this](float each) { value(each); });
  return *this;
}

JsonText& JsonText::nested_integers(std::span<const float> values, std::span<const int64_t> shape) {
  put_nested(*this, values, shape, [this](float each) { value(static_cast<int64_t>(each)); });
  return *this;
}

}  // namespace heed::explain
