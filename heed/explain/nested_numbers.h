// Matrices of a check file: nested arrays of numbers. Every error names file and line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heed/explain/grade.h"
#include "heed/io/toml.h"

namespace heed::explain {

// What a value may hold besides finite numbers.
struct NumberRules {
  bool minus_infinity = false;  // -inf
  bool booleans = false;        // true and false, as 1 and 0
  bool left_out = false;        // "?" for an omitted number, [] for an omitted row or head
};

// A value of a file, with its name for messages: "claimed.out".
struct NamedValue {
  const io::TomlValue& value;
  const std::string& path;  // of the file
  std::string name;

  [[noreturn]] void refuse(const std::string& what, const std::string& hint = "") const;
  [[noreturn]] void refuse(const io::TomlValue& inner, const std::string& what, const std::string& hint = "") const;
};

// Numbers nested 0 to 3 deep, row-major. Ragged arrays are rejected.
struct NestedNumbers {
  std::vector<int64_t> shape;
  std::vector<std::optional<WrittenNumber>> numbers;
};
NestedNumbers read_numbers(const NamedValue& value, const NumberRules& rules);

// The numbers in the layout of the step: [count, rows, columns].
//     q, k, v, heads      [H][T][D], or [T][H·D]: the heads side by side
//     W_Q, W_K, W_V       [C][H·D], or [H][C][D]
//     scores … weights    [H][Tq][Tk]
//     all others          [rows][columns]
// A single matrix needs no outermost array, a single row no array of rows, a single number no array at all.
ClaimedStep arrange(const NamedValue& value, NestedNumbers numbers, AttentionStep step, const StepRules& rules);

}  // namespace heed::explain
