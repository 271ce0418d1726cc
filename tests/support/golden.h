// Goldens: small problems and their answers, made by another system (tools/goldens/) and kept in tests/golden/.
//
// The format is words between white space; a line that begins with # is a comment:
//     case NAME
//     text KEY WORD…                              to the end of the line
//     tensor NAME RANK SIZE… VALUE…               row-major floats as C writes them (%a)
//     bits NAME RANK SIZE… 0110…                  row-major, one line for each row of the last dimension
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "heed/core/tensor.h"
#include "heed/core/view.h"

namespace heed::test {

// Booleans of any rank.
struct Bits {
  std::vector<int64_t> shape;
  std::unique_ptr<bool[]> values;

  View<const bool, 4> view4() const { return {values.get(), {shape.at(0), shape.at(1), shape.at(2), shape.at(3)}}; }
};

struct GoldenCase {
  std::string name;
  std::map<std::string, std::string> texts;
  std::map<std::string, Tensor> tensors;
  std::map<std::string, Bits> bits;
};

// The cases of tests/golden/<file>. Throws when the file is missing or malformed.
std::vector<GoldenCase> load_goldens(const std::string& file);

// Where tests/golden/<file> is.
std::string golden_path(const std::string& file);

}  // namespace heed::test
