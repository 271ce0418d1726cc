// A streaming JSON writer. Numbers are written as the shortest text that round-trips to the same float.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heed::explain {

class JsonText {
 public:
  JsonText& begin_object() { return open('{'); }
  JsonText& end_object() { return close('}'); }
  JsonText& begin_array() { return open('['); }
  JsonText& end_array() { return close(']'); }
  // Starts a new line.
  JsonText& line();
  JsonText& key(std::string_view name);

  // Bytes that are not UTF-8 become U+FFFD.
  JsonText& value(std::string_view text);
  JsonText& value(const char* text) { return value(std::string_view(text)); }
  JsonText& value(const std::string& text) { return value(std::string_view(text)); }
  JsonText& value(bool flag);
  JsonText& value(int64_t number);
  JsonText& value(int number) { return value(static_cast<int64_t>(number)); }
  // null if the number is not finite.
  JsonText& value(float number);
  JsonText& value(double number);

  template <class Values>
  JsonText& list(const Values& values) {
    begin_array();
    for (const auto& each : values) value(each);
    return end_array();
  }

  // Row-major values as nested arrays; returns *this.
  JsonText& nested(std::span<const float> values, std::span<const int64_t> shape);
  // The same for integers.
  JsonText& nested_integers(std::span<const float> values, std::span<const int64_t> shape);

  const std::string& text() const { return text_; }

 private:
  JsonText& open(char bracket);
  JsonText& close(char bracket);
  void separate();

  std::string text_;
  bool first_ = true;  // the next value is the first of its array or object
};

}  // namespace heed::explain
