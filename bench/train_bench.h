// Measures whole training steps: forward, backward, clipping by the norm, AdamW.
#pragma once

#include <vector>

#include "bench/row.h"
#include "bench/selection.h"
#include "bench/train_models.h"
#include "heed/autograd/tape.h"
#include "heed/train/optimiser.h"

namespace heed::bench {

struct TrainCase {
  CaseName label;
  TrainSizes sizes;
};

// Every case, in the order of the table.
const std::vector<TrainCase>& train_cases();

class StepProfile;

// A model that is trained on one batch of random tokens, the same in each step.
class TrainingRun {
 public:
  explicit TrainingRun(const TrainSizes& sizes);
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  // One step. Returns the loss before it.
  float step();
  // One step, by op.
  std::vector<OpTime> profile();

 private:
  float observed_step(StepProfile* profile);

  TrainModel model_;
  Batch batch_;
  AdamW optimiser_;
  Tape tape_;
};

// Rows of one thread and of all threads, measured in alternation; one row where both are the same number. With a
// profile, each has that of one more step.
void bench_train(const std::vector<TrainCase>& cases, const BenchOptions& options, bool with_profile, Report& report);

}  // namespace heed::bench
