// The tensors behind the score options of an attention case, with their gradients.
#pragma once

#include <cstdint>
#include <string>

#include "heed/core/tensor.h"
#include "tests/support/attention_case.h"
#include "tests/support/draw.h"

namespace heed::test {

// Each use_… gives the case one option with random values and asks for its gradient. Outlives the case's calls.
class ScoreTensors {
 public:
  explicit ScoreTensors(AttentionCase& c, uint64_t seed) : case_(c), seed_(seed) {}
  ScoreTensors(const ScoreTensors&) = delete;
  ScoreTensors& operator=(const ScoreTensors&) = delete;

  // [batch, heads, Tq, Tk], rows with a gap between them; where one_in > 0, one value in so many is -∞.
  void use_bias(int64_t batch, int64_t heads, int64_t one_in = 0);
  void use_alibi();
  void use_table(int64_t buckets, int64_t max_distance, bool bidirectional);
  void use_sinks();

  // A random choice of everything, in words.
  std::string draw_options(Draw& draw);

  View<float, 4> bias() { return view_of(bias_); }

 private:
  View<float, 4> view_of(Tensor& tensor) const;

  AttentionCase& case_;
  uint64_t seed_;
  int64_t bias_batch_ = 1, bias_heads_ = 1;
  Tensor bias_, slopes_, table_, sinks_;
  Tensor d_bias_, d_slopes_, d_table_, d_sinks_;
};

// Expects all results of the case, on the instruction set in use, to be those of the reference within the contract's
// bounds. Gradients that cancel out are measured by a tenth of what their terms add up to.
void expect_close(AttentionCase& c, const ReferenceResult& expected);

}  // namespace heed::test
