// A training run beside PyTorch's: ten steps of AdamW with clipped gradients on an encoder-decoder.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "heed/autograd/loss_ops.h"
#include "heed/train/optimiser.h"
#include "tests/support/every_isa.h"
#include "tests/support/module_golden.h"
#include "tests/support/sequence_model.h"

namespace heed::test {
namespace {

// Row `step` of ids [steps, B, T].
TensorOf<int64_t> ids_of_step(const TensorOf<int64_t>& all, int64_t step) {
  TensorOf<int64_t> result({all.shape()[1], all.shape()[2]});
  std::copy_n(all.values().begin() + step * result.count(), result.count(), result.values().begin());
  return result;
}

void set_parameters(const NnGolden& golden, const std::vector<nn::NamedParameter>& parameters) {
  EXPECT_EQ(parameters.size(), golden.names("param/").size());
  for (const nn::NamedParameter& each : parameters) {
    const Tensor from = golden.tensor("param/" + each.name);
    ASSERT_EQ(each.parameter->shape().to_vector(), from.shape()) << each.name;
    std::copy(from.values().begin(), from.values().end(), each.parameter->values().begin());
  }
}

// Within 1e-4 of the largest value. Attention does not depend on the bias of its keys: their gradients are 0 but for
// rounding, which Adam scales up to steps of the learning rate, so they are passed over.
void expect_final(const std::string& name, std::span<const float> got, const Doubles& expected) {
  if (!name.ends_with("in_proj_bias")) return expect_near_golden(name, got, expected, 1e-4);
  const size_t third = got.size() / 3;
  for (const size_t begin : {size_t{0}, 2 * third}) {  // of q, k and v
    const auto from = expected.values.begin() + static_cast<std::ptrdiff_t>(begin);
    expect_near_golden(name, got.subspan(begin, third), {{}, {from, from + static_cast<std::ptrdiff_t>(third)}}, 1e-4);
  }
}

TEST(TrainingGolden, TenStepsOfAnEncoderDecoderArePyTorchs) {
  const std::vector<NnGolden> goldens = load_nn_goldens("training");
  ASSERT_EQ(goldens.size(), 1U);
  const NnGolden& golden = goldens[0];
  const auto size = [&](const std::string& name) { return golden.option<int64_t>("model/" + name); };
  const nn::TransformerOptions options{.width = size("width"),
                                       .heads = size("heads"),
                                       .feed_forward = size("feed_forward"),
                                       .layers = size("layers"),
                                       .decoder_layers = size("layers"),
                                       .dropout = 0.0F};
  on_every_isa([&] {
    SequenceModel model(size("vocabulary"), options);
    const std::vector<nn::NamedParameter> parameters = nn::parameters(model);
    set_parameters(golden, parameters);
    AdamW optimiser(parameters, {.lr = golden.option<double>("adamw/lr"),
                                 .beta1 = golden.option<double>("adamw/betas/0"),
                                 .beta2 = golden.option<double>("adamw/betas/1"),
                                 .eps = golden.option<double>("adamw/eps"),
                                 .weight_decay = golden.option<double>("adamw/weight_decay"),
                                 .clip_norm = golden.option<double>("clip_grad_norm")});
    Tape tape;
    const Doubles& losses = golden.doubles("out/losses");
    const Doubles& norms = golden.doubles("out/norms");
    for (size_t step = 0; step < losses.values.size(); ++step) {
      const auto at = static_cast<int64_t>(step);
      const Var logits = model(tape, ids_of_step(golden.ids("in/src"), at), ids_of_step(golden.ids("in/tgt"), at));
      const Var loss = cross_entropy(logits, ids_of_step(golden.ids("in/labels"), at).values());
      EXPECT_NEAR(static_cast<double>(loss.item()), losses.values[step], 1e-5 * losses.values[step]) << step;
      loss.backward();
      EXPECT_NEAR(optimiser.step(), norms.values[step], 1e-5 * norms.values[step]) << step;
      tape.clear();
    }
    for (const nn::NamedParameter& each : parameters) {
      expect_final(each.name, each.parameter->values(), golden.doubles("final/" + each.name));
    }
  });
}

}  // namespace
}  // namespace heed::test
