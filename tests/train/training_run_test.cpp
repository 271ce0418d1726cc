// What a whole training run promises: model, tape and optimiser together, with dropout, a mask and clipping.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heed/autograd/basic_ops.h"
#include "heed/autograd/loss_ops.h"
#include "heed/autograd/tape.h"
#include "heed/nn/embedding.h"
#include "heed/nn/linear.h"
#include "heed/nn/positions.h"
#include "heed/nn/state.h"
#include "heed/nn/transformer.h"
#include "heed/train/optimiser.h"
#include "heed/train/optimiser_file.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/every_isa.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/threads.h"

namespace heed::test {
namespace {

constexpr int64_t kItems = 6, kTokens = 40;

struct Classifier {
  nn::Embedding words{11, 24};
  nn::LearnedPositions positions{kTokens, 24};
  nn::TransformerEncoder encoder{{.width = 24, .heads = 3, .feed_forward = 40, .layers = 2, .final_norm = true}};
  nn::Linear classes{24, 3};

  void parts(auto&& visit) {
    visit("words", words), visit("positions", positions), visit("encoder", encoder), visit("classes", classes);
  }

  Var operator()(Tape& tape, const TensorOf<int64_t>& ids, const Mask& mask) const {
    return classes(mean(encoder(positions(words(tape, ids)), mask), 1));
  }
};

// A model in training, with a batch that it repeats.
struct Training {
  Training() {
    for (size_t i = 0; i < ids.values().size(); ++i) ids.values()[i] = static_cast<int64_t>(Rng(1).bits(i) % 11);
    nn::initialise(model, Rng(2));
  }

  Classifier model;
  TensorOf<int64_t> ids{{kItems, kTokens}};
  std::vector<int64_t> labels{0, 1, 2, 0, -100, 1};
  Mask mask = Mask::lengths({40, 3, 17, 1, 40, 33});
  Tape tape{{.seed = 7}};
  AdamW optimiser{nn::parameters(model), {.lr = 1e-2, .clip_norm = 1.0}};

  void step() {
    cross_entropy(model(tape, ids, mask), labels).backward();
    optimiser.step();
    tape.clear();
  }

  std::vector<float> values() {
    std::vector<float> result;
    for (const nn::NamedParameter& each : nn::parameters(model)) {
      result.insert(result.end(), each.parameter->values().begin(), each.parameter->values().end());
    }
    return result;
  }
};

TEST(TrainingRun, HasTheSameBitsForAnyNumberOfThreads) {
  on_every_isa([] {
    std::optional<std::vector<float>> expected;
    for (const int count : {1, 2, 5}) {
      const Threads threads(count);
      Training run;
      for (int step = 0; step < 3; ++step) run.step();
      if (!expected) expected = run.values();
      EXPECT_EQ(run.values(), *expected) << count << " threads";
    }
  });
}

TEST(TrainingRun, AllocatesNothingAfterTheFirstStep) {
  for (const int count : {1, 2}) {
    const Threads threads(count);
    Training run;
    run.step();
    const int64_t allocations = allocation_count();
    run.step();
    run.step();
    EXPECT_EQ(allocation_count(), allocations) << count << " threads";
  }
}

TEST(TrainingRun, ResumedHasTheBitsOfAnUninterruptedOne) {
  Training whole;
  for (int step = 0; step < 4; ++step) whole.step();

  const TemporaryDirectory directory;
  const std::string model_file = directory.file("model.safetensors");
  const std::string optimiser_file = directory.file("optimiser.safetensors");
  StepKey key;
  {
    Training first;
    for (int step = 0; step < 2; ++step) first.step();
    nn::save(first.model, model_file);
    save_optimiser(optimiser_file, first.optimiser);
    key = first.tape.step_key();
  }
  Training second;
  nn::load(second.model, model_file);
  load_optimiser(optimiser_file, second.optimiser);
  second.tape.set_step_key(key);
  for (int step = 0; step < 2; ++step) second.step();
  EXPECT_EQ(second.values(), whole.values());
}

}  // namespace
}  // namespace heed::test
