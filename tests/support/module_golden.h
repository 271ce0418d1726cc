// Modules beside PyTorch's: output and gradients of a module with the inputs and parameters of a golden.
//
//     nn::Linear linear(8, 11);
//     expect_golden(golden, nn::parameters(linear), [&](GoldenInputs& in) { return linear(in["x"]); });
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "heed/attention/mask.h"
#include "heed/autograd/tape.h"
#include "heed/nn/module.h"
#include "tests/support/golden_file.h"

namespace heed::test {

// The largest error is at most `tolerance` times the largest value.
void expect_near_golden(const std::string& name, std::span<const float> got, const Doubles& expected, double tolerance);

// The inputs of a golden on a tape of their own, as leaves.
class GoldenInputs {
 public:
  explicit GoldenInputs(const NnGolden& golden) : golden_(golden) {}

  Tape& tape() { return tape_; }
  const NnGolden& golden() const { return golden_; }
  // in/NAME.
  Var operator[](const std::string& name);
  const std::map<std::string, Var>& given() const { return leaves_; }

 private:
  const NnGolden& golden_;
  Tape tape_;
  std::map<std::string, Var> leaves_;
};

// The mask of some arguments of the call, by the options of the golden: "causal", or lengths of keys.
Mask golden_mask(const NnGolden& golden, std::span<const std::string> arguments);

// Finds what is named "param/NAME" or "grad/NAME" in PyTorch's state dict.
using GoldenParameter = std::function<Doubles(const std::string& kind, const std::string& name)>;

struct GoldenOptions {
  double tolerance = 1e-5;
  GoldenParameter parameter{};           // where the names are not PyTorch's
  std::vector<std::string> constants{};  // inputs that have a gradient in PyTorch only
};

// Sets the parameters to the golden's, calls, and compares output and all gradients: of inputs, none of which may be
// left out, and of parameters. The names of the parameters must be those of the golden, all of them, unless
// options.parameter finds them. On every instruction set.
void expect_golden(const NnGolden& golden, const std::vector<nn::NamedParameter>& parameters,
                   const std::function<Var(GoldenInputs&)>& call, const GoldenOptions& options = {});

}  // namespace heed::test
