// A small transformer learns which of two tokens comes first. It is trained, saved, loaded and evaluated.
#include <cstdio>

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
    return classes(mean(encoder(positions(words(tape, ids))), 1));  // [B, T] → [B, 2]
  }
};

struct Batch {
  TensorOf<int64_t> ids;     // [B, T]
  TensorOf<int64_t> labels;  // [B]: 0 or 1, whichever token comes first

  Batch(int64_t size, uint64_t seed) : ids({size, kLength}), labels({size}) {
    for (size_t i = ids.values().size(); i-- > 0;) {  // backwards, so that the first 0 or 1 has the last word
      const uint64_t choices = i % kLength == kLength - 1 ? 2 : kVocabulary;  // the last token is always 0 or 1
      const int64_t id = ids.values()[i] = static_cast<int64_t>(Rng(seed).bits(i) % choices);
      if (id < 2) labels.values()[i / kLength] = id;
    }
  }
};

int main() {
  Classifier model;
  nn::initialise(model, Rng(0));
  AdamW optimiser(nn::parameters(model), {.lr = 2e-3});
  Tape tape;
  for (unsigned step = 1; step <= 250; ++step) {
    const Batch batch(64, step);
    const Var loss = cross_entropy(model(tape, batch.ids), batch.labels.values());
    if (step % 50 == 0) std::printf("step %u: loss %.3f\n", step, loss.item());
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
  for (size_t i = 0; i < guesses.size(); ++i) right += guesses[i] == test.labels.values()[i];
  std::printf("accuracy: %.1f %%\n", right / 10.0);
}
