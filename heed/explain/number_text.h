// Numbers as text: the shortest that round-trips to the same float.
#pragma once

#include <array>
#include <charconv>
#include <string>

namespace heed::explain {

// "0.1", "1e-09", "-3"; the value must be finite if it is written to JSON.
inline std::string shortest(float value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

}  // namespace heed::explain
