// A small transformer learns which of two tokens comes first. It is trained, saved, loaded and evaluated.
#include <cstdio>
#include <vector>

#include "heed/heed.h"

using namespace heed;
constexpr int64_t kLength = 16, kVocabulary = 10, kWidth = 32;

struct Classifier {
  nn::Embedding words{kVocabulary, kWidth};
  nn::LearnedPositions positions{kLength, kWidth};
  nn::TransformerEncoder encoder{{.width = kWidth, .heads = 4, .feed_forward = 64, .layers = 2}};
  nn::Linear classes{kWidth, 2};

  void parts(auto&& visit) {
    visit("words", words), visit("positions", positions), visit("encoder", encoder), visit("classes", classes);
  }

  Var operator()(Tape& tape, const TensorOf<int64_t>& ids) const {
    return classes(mean(encoder(positions(words(tape, ids))), 1));  // ids [B, T], x [B, T, C] → [B, 2]
  }
};

struct Batch {
  TensorOf<int64_t> ids;        // [B, T]
  std::vector<int64_t> labels;  // [B]: 0 or 1, whichever token comes first

  Batch(int64_t size, uint64_t seed) : ids({size, kLength}), labels(size) {
    for (int64_t i = size * kLength - 1; i >= 0; --i) {  // backwards, so that the first 0 or 1 has the last word
      const int64_t choices = i % kLength == kLength - 1 ? 2 : kVocabulary;  // the last token is always 0 or 1
      ids.values()[i] = Rng(seed).bits(i) % choices;
      if (ids.values()[i] < 2) labels[i / kLength] = ids.values()[i];
    }
  }
};

int main() {
  Classifier model;
  nn::initialise(model, Rng(0));
  AdamW optimiser(nn::parameters(model), {.lr = 2e-3});
  Tape tape;
  for (int step = 1; step <= 250; ++step) {
    const Batch batch(64, step);
    const Var loss = cross_entropy(model(tape, batch.ids), batch.labels);
    if (step % 50 == 0) std::printf("step %d: loss %.3f\n", step, loss.item());
    loss.backward();
    optimiser.step();  // uses the gradients and clears them
    tape.clear();      // keeps its memory for the next step
  }
  nn::save(model, "classifier.safetensors");
  Classifier loaded;
  nn::load(loaded, "classifier.safetensors");
  const Batch test(1000, 0);
  const Evaluation evaluation(tape);  // no gradients, no dropout
  const auto guesses = max(loaded(tape, test.ids), 1).indices;
  int right = 0;
  for (int i = 0; i < 1000; ++i) right += guesses[i] == test.labels[i];
  std::printf("accuracy: %.1f %%\n", right / 10.0);
}
