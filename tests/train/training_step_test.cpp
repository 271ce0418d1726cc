// A training step of an encoder-decoder: memory, and models that move.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "heed/autograd/loss_ops.h"
#include "heed/autograd/tape.h"
#include "heed/train/optimiser.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/every_isa.h"
#include "tests/support/sequence_model.h"
#include "tests/support/threads.h"

namespace heed::test {
namespace {

constexpr int64_t kVocabulary = 19;

SequenceModel make_model(uint64_t seed) {
  SequenceModel model(kVocabulary, {.width = 12,
                                    .heads = 2,
                                    .feed_forward = 20,
                                    .layers = 2,
                                    .decoder_layers = 2,
                                    .dropout = 0.1F,
                                    .activation = Activation::gelu});
  nn::initialise(model, Rng(seed));
  return model;
}

// Ids that follow each other around the vocabulary.
TensorOf<int64_t> ids(int64_t batch, int64_t tokens, int64_t first) {
  TensorOf<int64_t> result({batch, tokens});
  for (int64_t i = 0; i < result.count(); ++i) result.values()[static_cast<size_t>(i)] = (first + 3 * i) % kVocabulary;
  return result;
}

struct Batch {
  TensorOf<int64_t> source = ids(3, 7, 1), target = ids(3, 5, 2), labels = ids(3, 5, 5);
  nn::TransformerMasks masks{
      .source = Mask::lengths({7, 4, 2}), .target = Mask::causal(), .memory = Mask::lengths({7, 4, 2})};
};

float train_step(SequenceModel& model, const Batch& batch, AdamW& optimiser, Tape& tape) {
  const Var loss = cross_entropy(model(tape, batch.source, batch.target, batch.masks), batch.labels.values());
  const float value = loss.item();
  loss.backward();
  optimiser.step();
  tape.clear();
  return value;
}

TEST(TrainingStep, AllocatesNothingAfterTheFirstTwo) {
  on_every_isa([] {
    for (const int count : {1, 2}) {
      SCOPED_TRACE(::testing::Message() << count << " threads");
      const Threads threads(count);
      SequenceModel model = make_model(1);
      const Batch batch;
      AdamW optimiser(nn::parameters(model), {.clip_norm = 1.0});
      Tape tape;
      for (int i = 0; i < 2; ++i) train_step(model, batch, optimiser, tape);
      const int64_t before = allocation_count();
      for (int i = 0; i < 3; ++i) train_step(model, batch, optimiser, tape);
      EXPECT_EQ(allocation_count(), before);
    }
  });
}

TEST(TrainingStep, MemoryDoesNotGrowAndTheModelLearns) {
  SequenceModel model = make_model(1);
  const Batch batch;
  AdamW optimiser(nn::parameters(model), {.lr = 1e-2});
  Tape tape;
  const float first = train_step(model, batch, optimiser, tape);
  const auto used = [&] {
    model(tape, batch.source, batch.target, batch.masks);
    const size_t bytes = tape.used_bytes();
    tape.clear();
    return bytes;
  };
  const size_t before = used();
  float last = first;
  for (int i = 0; i < 100; ++i) last = train_step(model, batch, optimiser, tape);
  EXPECT_EQ(used(), before);
  EXPECT_EQ(tape.nodes(), 0U);
  EXPECT_LT(last, 0.5F * first);
}

TEST(TrainingStep, AModelMovesUnderItsOptimiser) {
  const Batch batch;
  SequenceModel stays = make_model(1);
  AdamW stays_optimiser(nn::parameters(stays));
  Tape stays_tape;
  SequenceModel before = make_model(1);
  AdamW optimiser(nn::parameters(before));
  Tape tape;
  EXPECT_EQ(train_step(before, batch, optimiser, tape), train_step(stays, batch, stays_optimiser, stays_tape));
  SequenceModel after = std::move(before);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(train_step(after, batch, optimiser, tape), train_step(stays, batch, stays_optimiser, stays_tape));
  }
}

TEST(TrainingStep, FrozenParametersStayAndOthersMove) {
  SequenceModel model = make_model(1);
  nn::freeze(model.transformer.encoder);
  const SequenceModel start = model;
  AdamW optimiser(nn::parameters(model));
  Tape tape;
  const Batch batch;
  train_step(model, batch, optimiser, tape);
  const auto same = [](const Parameter& a, const Parameter& b) { return std::ranges::equal(a.values(), b.values()); };
  EXPECT_TRUE(
      same(model.transformer.encoder.layers[0].linear1.weight, start.transformer.encoder.layers[0].linear1.weight));
  EXPECT_TRUE(same(model.transformer.encoder.norm->weight, start.transformer.encoder.norm->weight));
  EXPECT_FALSE(
      same(model.transformer.decoder.layers[0].linear1.weight, start.transformer.decoder.layers[0].linear1.weight));
  EXPECT_FALSE(same(model.embedding.weight, start.embedding.weight));
}

// One step of a fresh tape is that of a run by seed and step, so that a run continues with the same dropout.
TEST(TrainingStep, ARunContinuesOnAFreshTape) {
  const Batch batch;
  SequenceModel whole = make_model(1), parts = make_model(1);
  AdamW whole_optimiser(nn::parameters(whole)), parts_optimiser(nn::parameters(parts));
  Tape tape({.seed = 9});
  for (uint64_t step = 0; step < 3; ++step) {
    Tape fresh({.seed = 9, .step = step});
    EXPECT_EQ(train_step(parts, batch, parts_optimiser, fresh), train_step(whole, batch, whole_optimiser, tape));
  }
}

}  // namespace
}  // namespace heed::test
