#include "bench/train_bench.h"

#include <memory>
#include <utility>

#include "bench/allocation_counter.h"
#include "bench/step_profile.h"
#include "heed/nn/module.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/isa.h"

namespace heed::bench {
namespace {

// A step of more operations is none of --quick.
constexpr double kMostQuickFlops = 9e9;

TrainCase make_case(const char* name, TrainSizes sizes) {
  TrainCase result;
  result.label.name = name;
  result.label.group = sizes.model;
  result.label.slow = train_flops(sizes) > kMostQuickFlops;
  result.sizes = std::move(sizes);
  return result;
}

std::vector<TrainCase> make_cases() {
  return {
      make_case("encoder", {"classifier", 32, 256, 128, 4, 4, 20000}),
      make_case("gpt-tiny", {"language-model", 12, 64, 128, 4, 4, 65}),
      make_case("gpt-small", {"language-model", 16, 256, 384, 6, 6, 65}),
      make_case("seq2seq", {"translator", 64, 24, 256, 8, 3, 8000}),
  };
}

std::vector<nn::NamedParameter> parameters_of(TrainModel& model) {
  return std::visit([](auto& each) { return nn::parameters(each); }, model);
}

// The number of threads of a row, and what its last step allocated.
struct Variant {
  int threads = 1;
  int64_t allocations = 0;
};

Row row_of(const TrainCase& each, const Variant& variant, const Measurement& measured) {
  Row row;
  row.name = each.label.name;
  row.kind = "train";
  row.threads = variant.threads;
  row.isa = isa_name(isa());
  row.measured = measured;
  row.allocations = variant.allocations;
  return row;
}

std::vector<Row> measure(const TrainCase& each, const BenchOptions& options, bool with_profile, Harness& harness) {
  TrainingRun run(each.sizes);
  std::vector<Variant> variants = {{options.threads}};
  if (options.all_threads != options.threads) variants.push_back({options.all_threads});
  std::vector<Contender> contenders;
  for (Variant& variant : variants) {
    Contender& contender = contenders.emplace_back();
    contender.threads = variant.threads;
    contender.flops = train_flops(each.sizes);
    contender.call = [&run, &variant] {
      const int64_t before = allocation_count();
      run.step();
      variant.allocations = allocation_count() - before;
    };
  }
  const std::vector<Measurement> measured = harness.measure(contenders);

  std::vector<Row> rows;
  for (size_t i = 0; i < variants.size(); ++i) {
    Row& row = rows.emplace_back(row_of(each, variants[i], measured[i]));
    if (i > 0) {
      row.base = "1 thread";
      row.of_base = measured[i].of_first;
    }
    if (!with_profile) continue;
    set_threads(row.threads);
    run.step();  // wakes the threads
    row.profile = run.profile();
  }
  return rows;
}

}  // namespace

const std::vector<TrainCase>& train_cases() {
  static const std::vector<TrainCase> cases = make_cases();
  return cases;
}

TrainingRun::TrainingRun(const TrainSizes& sizes)
    : model_(make_model(sizes)),
      batch_(random_batch(sizes)),
      optimiser_(parameters_of(model_), {.lr = 1e-3, .weight_decay = 0.01, .clip_norm = 1.0}) {}

float TrainingRun::step() { return observed_step(nullptr); }

std::vector<OpTime> TrainingRun::profile() {
  StepProfile profile;
  tape_.set_observer(&profile);
  observed_step(&profile);
  tape_.set_observer(nullptr);
  return profile.times();
}

float TrainingRun::observed_step(StepProfile* profile) {
  const Var loss = std::visit([&](const auto& model) { return model.loss(tape_, batch_); }, model_);
  const float before = loss.item();
  loss.backward();
  optimiser_.step();
  if (profile != nullptr) profile->ran("optimiser");
  tape_.clear();
  return before;
}

void bench_train(const std::vector<TrainCase>& cases, const BenchOptions& options, bool with_profile, Report& report) {
  Harness harness(options.harness);
  for (const TrainCase& each : cases) {
    for (const Row& row : measure(each, options, with_profile, harness)) report.add(row);
  }
}

}  // namespace heed::bench
