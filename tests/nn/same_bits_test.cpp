// The bits of a layer, forward and backward, depend on its inputs only: not on threads, on batch mates, or on whether
// the tape records.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "heed/autograd/tape.h"
#include "heed/nn/module.h"
#include "heed/nn/transformer.h"
#include "tests/support/every_isa.h"
#include "tests/support/threads.h"
#include "tests/support/var_gradients.h"

namespace heed::test {
namespace {

// More tokens than a block of a sum over tokens has, and sizes that no vector divides.
constexpr int64_t kBatch = 3, kTokens = 131, kSource = 57, kWidth = 30;

nn::TransformerOptions layer_options(float dropout) {
  return {.width = kWidth,
          .heads = 3,
          .feed_forward = 45,
          .dropout = dropout,
          .activation = Activation::gelu,
          .norm_first = true};
}

std::vector<float> list(std::span<const float> values) { return {values.begin(), values.end()}; }

// Output, gradients of the inputs, gradients of the parameters.
using Results = std::vector<std::vector<float>>;
using Inputs = std::vector<Tensor>;

// A layer whose call takes the inputs on a tape.
struct Case {
  std::function<Var(std::span<const Var>)> call;
  std::vector<nn::NamedParameter> parameters;
  Inputs inputs;
};

Results results_of(const Case& c, const StepKey& key = {}) {
  for (const nn::NamedParameter& each : c.parameters) each.parameter->zero_gradient();
  Tape tape(key);
  std::vector<Var> leaves;
  for (const Tensor& input : c.inputs) leaves.push_back(tape.leaf(input));
  const Var y = c.call(leaves);
  Results results{list(y.values())};
  y.backward(random_tensor(y.shape().to_vector(), 5).values());
  for (const Var& leaf : leaves) results.push_back(list(leaf.gradients()));
  for (const nn::NamedParameter& each : c.parameters) results.push_back(list(each.parameter->gradient()));
  return results;
}

class LayerBits : public ::testing::TestWithParam<float> {
 protected:
  LayerBits() {
    nn::initialise(encoder_, Rng(1));
    nn::initialise(decoder_, Rng(2));
  }

  // body(case) for an encoder layer and a decoder layer, on every instruction set.
  template <class Body>
  void for_each_layer(Body body) {
    on_every_isa([&] {
      {
        SCOPED_TRACE("encoder layer");
        body(Case{[&](std::span<const Var> in) { return encoder_(in[0], lengths_); },
                  nn::parameters(encoder_),
                  {random_tensor({kBatch, kTokens, kWidth}, 3)}});
      }
      SCOPED_TRACE("decoder layer");
      body(Case{[&](std::span<const Var> in) { return decoder_(in[0], in[1], Mask::causal(), memory_lengths_); },
                nn::parameters(decoder_),
                {random_tensor({kBatch, kTokens, kWidth}, 3), random_tensor({kBatch, kSource, kWidth}, 4)}});
    });
  }

  nn::TransformerEncoderLayer encoder_{layer_options(GetParam())};
  nn::TransformerDecoderLayer decoder_{layer_options(GetParam())};
  Mask lengths_ = Mask::lengths({kTokens, 40, 1});
  Mask memory_lengths_ = Mask::lengths({5, kSource, 31});
};

INSTANTIATE_TEST_SUITE_P(Dropout, LayerBits, ::testing::Values(0.0F, 0.1F));

TEST_P(LayerBits, AnyNumberOfThreadsGivesTheSameBits) {
  for_each_layer([](const Case& c) {
    const auto with_threads = [&](int count) {
      const Threads threads(count);
      return results_of(c);
    };
    const Results one = with_threads(1);
    EXPECT_EQ(with_threads(2), one);
    EXPECT_EQ(with_threads(5), one);
    EXPECT_EQ(with_threads(1), one) << "a second run";
  });
}

TEST_P(LayerBits, RecordingChangesNoBits) {
  for_each_layer([&](const Case& c) {
    Tape tape;
    const auto output = [&] {
      std::vector<Var> constants;
      for (const Tensor& input : c.inputs) constants.push_back(tape.constant(input));
      std::vector<float> y = list(c.call(constants).values());
      tape.clear();
      tape.set_step_key({});
      return y;
    };
    const std::vector<float> recorded = output();
    {
      const NoGrad no_grad(tape);
      EXPECT_EQ(output(), recorded);
    }
    const Evaluation evaluation(tape);
    // Evaluation differs from training by dropout only.
    EXPECT_EQ(output() == recorded, GetParam() == 0.0F);
  });
}

using LayerDropout = LayerBits;
INSTANTIATE_TEST_SUITE_P(Dropout, LayerDropout, ::testing::Values(0.1F));

TEST_P(LayerDropout, DropoutIsAFunctionOfSeedAndStep) {
  for_each_layer([](const Case& c) {
    const Results first = results_of(c, {.seed = 3, .step = 7});
    EXPECT_EQ(results_of(c, {.seed = 3, .step = 7}), first);
    EXPECT_NE(results_of(c, {.seed = 3, .step = 8})[0], first[0]);
    EXPECT_NE(results_of(c, {.seed = 4, .step = 7})[0], first[0]);
  });
}

// Item b of the rows of a tensor [B, …].
std::vector<float> item(const std::vector<float>& values, int64_t b) {
  const auto size = static_cast<std::ptrdiff_t>(values.size()) / kBatch;
  return {values.begin() + b * size, values.begin() + (b + 1) * size};
}

Tensor item(const Tensor& all, int64_t b) {
  Tensor result({1, all.shape()[1], all.shape()[2]});
  std::copy_n(all.values().begin() + b * result.count(), result.count(), result.values().begin());
  return result;
}

TEST(ItemBits, AnItemHasTheBitsItHasAlone) {
  nn::TransformerDecoderLayer layer(layer_options(0.0F));
  nn::initialise(layer, Rng(2));
  const std::vector<int64_t> lengths{5, kSource, 31};
  const Tensor x = random_tensor({kBatch, kTokens, kWidth}, 3), memory = random_tensor({kBatch, kSource, kWidth}, 4);
  const Tensor d_y = random_tensor({kBatch, kTokens, kWidth}, 6);
  // y, d_x and d_memory.
  const auto results = [&](const Tensor& queries, const Tensor& keys, const Tensor& gradient,
                           const std::vector<int64_t>& visible) {
    Tape tape;
    const Var a = tape.leaf(queries), b = tape.leaf(keys);
    const Var y = layer(a, b, Mask::causal(), Mask::lengths(visible));
    y.backward(gradient.values());
    return Results{list(y.values()), list(a.gradients()), list(b.gradients())};
  };
  on_every_isa([&] {
    const Results batch = results(x, memory, d_y, lengths);
    for (int64_t b = 0; b < kBatch; ++b) {
      const Results alone = results(item(x, b), item(memory, b), item(d_y, b), {lengths[static_cast<size_t>(b)]});
      for (size_t n = 0; n < alone.size(); ++n) EXPECT_EQ(alone[n], item(batch[n], b)) << "item " << b << ", " << n;
    }
  });
}

}  // namespace
}  // namespace heed::test
