#include "heed/nn/positions.h"

#include <cmath>

#include "heed/autograd/basic_ops.h"
#include "heed/core/error.h"

namespace heed::nn {
namespace {

void check_table(const char* name, int64_t length, int64_t width) {
  check(length > 0 && width > 0, name, length, " positions of width ", width, "; both must be above 0");
}

void check_tokens(const char* name, const Var& x, const Dims& table) {
  check(x.rank() == 3 && x.size(2) == table[1], name, "x has shape ", x.shape(), ", expected [B, T, ", table[1], "]");
  check(x.size(1) <= table[0], name, "x has ", x.size(1), " tokens, and there are ", table[0], " positions");
}

}  // namespace

LearnedPositions::LearnedPositions(int64_t length, int64_t width) {
  check_table("nn::LearnedPositions", length, width);
  weight = Parameter({length, width});
}

Var LearnedPositions::operator()(const Var& x) const {
  check_tokens("nn::LearnedPositions", x, weight.shape());
  const Var rows = x.tape().parameter(weight);
  return add(x, x.size(1) == rows.size(0) ? rows : slice(rows, 0, 0, x.size(1)));
}

SinusoidalPositions::SinusoidalPositions(int64_t length, int64_t width) {
  check_table("nn::SinusoidalPositions", length, width);
  table = Tensor({length, width});
  const View<float, 2> to = table.view<2>();
  for (int64_t t = 0; t < length; ++t) {
    for (int64_t c = 0; c < width; ++c) {
      const int64_t even = c - c % 2;
      const double exponent = static_cast<double>(even) / static_cast<double>(width);
      const double angle = static_cast<double>(t) / std::pow(10000.0, exponent);
      to(t, c) = static_cast<float>(c % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
}

Var SinusoidalPositions::operator()(const Var& x) const {
  check_tokens("nn::SinusoidalPositions", x, Dims(table.shape()));
  return add(x, x.tape().constant(table.values().data(), {x.size(1), x.size(2)}));
}

}  // namespace heed::nn
