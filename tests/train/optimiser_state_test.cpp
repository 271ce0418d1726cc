// Optimisers saved and restored.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "heed/io/file_error.h"
#include "heed/io/safetensors.h"
#include "heed/train/optimiser.h"
#include "heed/train/optimiser_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/odd_model.h"
#include "tests/support/temporary_directory.h"

namespace heed::test {
namespace {

// Six steps give the same bits as three, a file, and three with a new optimiser and a copy of the model.
template <class Rule, class Options>
void expect_resumes(const Options& options) {
  const TemporaryDirectory directory;
  const auto train = [](OddModel& model, Rule& optimiser, uint64_t begin, uint64_t end) {
    for (uint64_t step = begin; step < end; ++step) {
      model.draw_gradients(step);
      optimiser.step();
      optimiser.set_learning_rate(0.9 * optimiser.learning_rate());
    }
  };
  OddModel whole, first;
  Rule uninterrupted(nn::parameters(whole), options), before(nn::parameters(first), options);
  train(whole, uninterrupted, 0, 6);
  train(first, before, 0, 3);
  save_optimiser(directory.file("state.safetensors"), before);
  OddModel second = first;
  Rule after(nn::parameters(second), options);
  load_optimiser(directory.file("state.safetensors"), after);
  EXPECT_EQ(after.steps(), 3);
  train(second, after, 3, 6);
  EXPECT_EQ(second.values(), whole.values());
  EXPECT_EQ(after.learning_rate(), uninterrupted.learning_rate());
}

TEST(OptimiserState, ARestoredRunHasTheBitsOfAnUninterruptedOne) {
  expect_resumes<SGD>(SGDOptions{.lr = 0.1});
  expect_resumes<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.1});
  expect_resumes<Adam>(AdamOptions{.weight_decay = 0.1});
  expect_resumes<AdamW>(AdamWOptions{.clip_norm = 1.0});
}

TEST(OptimiserState, TensorsHaveTheNamesOfTheirParameters) {
  OddModel model;
  const AdamW adam(nn::parameters(model));
  const OptimiserState state = adam.state();
  ASSERT_EQ(state.tensors.size(), 10U);
  EXPECT_EQ(state.tensors[0].name, "exp_avg.weight");
  EXPECT_EQ(state.tensors[0].shape, (std::vector<int64_t>{181, 131}));
  EXPECT_EQ(state.tensors[9].name, "exp_avg_sq.scale");
  const SGD sgd(nn::parameters(model), {.momentum = 0.5});
  EXPECT_EQ(sgd.state().tensors.front().name, "momentum_buffer.weight");
}

TEST(OptimiserState, EveryMismatchIsListedAndNothingIsWritten) {
  OddModel model;
  AdamW optimiser(nn::parameters(model));
  const std::vector<float> values(7, 1.0F);
  OptimiserState state = optimiser.state();
  state.steps = 5;
  state.tensors[0].name = "exp_avg.other";
  state.tensors[1].shape = {7};
  state.tensors[1].values = values;
  expect_error([&] { optimiser.restore(state); },
               {"Optimiser::restore: ", "exp_avg.weight [181, 131] is missing",
                "exp_avg.bias has shape [7], expected [131]", "exp_avg.other [181, 131] is not expected"});
  EXPECT_EQ(optimiser.steps(), 0);
  EXPECT_EQ(optimiser.state().tensors[1].values[0], 0.0F);
  SGD sgd(nn::parameters(model));
  expect_error([&] { sgd.restore(state); }, {"exp_avg_sq.scale [5, 11] is not expected"});
}

TEST(OptimiserState, AFileWithoutStepsIsRefused) {
  const TemporaryDirectory directory;
  io::write_safetensors(directory.file("x.safetensors"), std::vector<std::pair<std::string, const Tensor*>>{});
  OddModel model;
  SGD optimiser(nn::parameters(model));
  expect_error([&] { load_optimiser(directory.file("x.safetensors"), optimiser); },
               {"no number 'step'", "x.safetensors", "save_optimiser"});
}

}  // namespace
}  // namespace heed::test
