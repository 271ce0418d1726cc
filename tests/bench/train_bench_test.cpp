#include "bench/train_bench.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "bench/allocation_counter.h"
#include "heed/nn/module.h"
#include "heed/parallel/parallel_for.h"
#include "tests/support/every_isa.h"

namespace heed::bench {
namespace {

struct Collected : Report {
  void add(const Row& row) override { rows.push_back(row); }
  std::vector<Row> rows;
};

constexpr const char* kModels[] = {"classifier", "language-model", "translator"};

TrainSizes small_sizes(const char* model) {
  return {.model = model, .batch = 2, .length = 5, .width = 8, .heads = 2, .layers = 1, .vocabulary = 11};
}

TrainCase small_case(const char* model) {
  TrainCase result;
  result.label.name = "small";
  result.sizes = small_sizes(model);
  return result;
}

// One short repetition.
std::vector<Row> run(const TrainCase& each, int threads, int all_threads, bool with_profile) {
  BenchOptions options;
  options.threads = threads;
  options.all_threads = all_threads;
  options.harness.repetitions = 1;
  options.harness.least_seconds = 1e-9;
  const int threads_before = heed::threads();
  Collected report;
  bench_train({each}, options, with_profile, report);
  set_threads(threads_before);
  return report.rows;
}

TEST(TrainCases, AreTheFourModelsOfThePeers) {
  std::set<std::string> names;
  for (const TrainCase& each : train_cases()) names.insert(each.label.name);
  EXPECT_EQ(names, (std::set<std::string>{"encoder", "gpt-tiny", "gpt-small", "seq2seq"}));
  for (const TrainCase& each : train_cases()) EXPECT_EQ(each.label.slow, each.label.name != "gpt-tiny");
}

// The numbers of parameters that the modules of tools/peers/torch_training.py have, by hand: a layer of width C has
// 12 C² + 13 C of them, and a decoder layer 16 C² + 19 C.
TEST(TrainModels, HaveAsManyParametersAsThePeers) {
  const int64_t c = 8, layer = 12 * c * c + 13 * c, decoder_layer = 16 * c * c + 19 * c;
  const auto count = [](const char* model) {
    TrainModel made = make_model(small_sizes(model));
    return std::visit([](auto& each) { return nn::count_parameters(each); }, made);
  };
  EXPECT_EQ(count("classifier"), 11 * c + 5 * c + layer + 2 * c + 2);
  EXPECT_EQ(count("language-model"), 11 * c + 5 * c + layer + 2 * c);
  EXPECT_EQ(count("translator"), 11 * c + layer + decoder_layer + 2 * 2 * c + 11 * c + 11);
}

// B = 2, T = 5, C = 8, H = 2, D = 4, V = 11: 10 tokens, 100 visible pairs of both heads and items, 60 under a causal
// mask. A pair takes 4 D forward and 10 D backward, a weight 6 for each token.
TEST(TrainFlops, CountTheProductsOfForwardAndBackward) {
  const double dense = 14 * 4 * 100, causal = 14 * 4 * 60;
  const double projections = 6 * 10 * 4 * 8 * 8, feed_forward = 6 * 10 * 2 * 8 * 32, to_tokens = 6 * 10 * 8 * 11;
  const double encoder_layer = dense + projections + feed_forward;
  EXPECT_EQ(train_flops(small_sizes("classifier")), encoder_layer + 6 * 2 * 8 * 2);
  EXPECT_EQ(train_flops(small_sizes("language-model")), causal + projections + feed_forward + to_tokens);
  EXPECT_EQ(train_flops(small_sizes("translator")),
            encoder_layer + causal + dense + 2 * projections + feed_forward + to_tokens);
}

TEST(TrainingRun, TheLossOfAFixedBatchFalls) {
  test::on_every_isa([] {
    for (const char* model : kModels) {
      SCOPED_TRACE(model);
      TrainingRun training(small_sizes(model));
      const float first = training.step();
      float last = first;
      for (int i = 0; i < 60; ++i) last = training.step();
      EXPECT_LT(last, 0.9F * first);
    }
  });
}

TEST(TrainingRun, LossesDoNotDependOnTheNumberOfThreads) {
  const int before = threads();
  for (const char* model : kModels) {
    SCOPED_TRACE(model);
    std::vector<std::vector<float>> losses;
    for (const int count : {1, 2}) {
      set_threads(count);
      TrainingRun training(small_sizes(model));
      losses.emplace_back();
      for (int i = 0; i < 4; ++i) losses.back().push_back(training.step());
    }
    EXPECT_EQ(losses[0], losses[1]);
  }
  set_threads(before);
}

TEST(TrainingRun, StepsAfterTheFirstAllocateNothing) {
  const int before = threads();
  for (const char* model : kModels) {
    for (const int count : {1, 2}) {
      SCOPED_TRACE(::testing::Message() << model << ", " << count << " threads");
      set_threads(count);
      TrainingRun training(small_sizes(model));
      training.step();
      const int64_t allocations = allocation_count();
      training.step();
      EXPECT_EQ(allocation_count() - allocations, 0);
    }
  }
  set_threads(before);
}

TEST(TrainingRun, AProfileHasEveryOpForwardAndBackwardAndTheOptimiser) {
  TrainingRun training(small_sizes("language-model"));
  training.step();
  const std::vector<OpTime> profile = training.profile();
  const auto calls = [&](const std::string& op, const std::string& pass) {
    const auto found =
        std::ranges::find_if(profile, [&](const OpTime& each) { return each.op == op && each.pass == pass; });
    return found == profile.end() ? 0 : found->calls;
  };
  for (const char* pass : {"forward", "backward"}) {
    EXPECT_EQ(calls("embedding", pass), 1) << pass;
    EXPECT_EQ(calls("norm", pass), 3) << pass;
    EXPECT_EQ(calls("multihead", pass), 1) << pass;
    EXPECT_EQ(calls("feed_forward", pass), 1) << pass;
    EXPECT_EQ(calls("linear_cross_entropy", pass), 1) << pass;
  }
  EXPECT_EQ(calls("optimiser", ""), 1);
  EXPECT_TRUE(std::ranges::is_sorted(profile, std::greater<>(), &OpTime::seconds));
}

TEST(BenchTrain, MeasuresOneThreadAndAllThreadsBesideIt) {
  const std::vector<Row> rows = run(small_case("classifier"), 1, 2, false);
  ASSERT_EQ(rows.size(), 2U);
  for (const Row& row : rows) {
    EXPECT_EQ(row.name, "small");
    EXPECT_EQ(row.kind, "train");
    EXPECT_EQ(row.allocations, 0);
    EXPECT_TRUE(row.profile.empty());
    EXPECT_NEAR(row.measured->gflops * row.measured->seconds * 1e9, train_flops(small_sizes("classifier")), 1e-3);
  }
  EXPECT_EQ(rows[0].threads, 1);
  EXPECT_FALSE(rows[0].of_base);
  EXPECT_EQ(rows[1].threads, 2);
  EXPECT_EQ(rows[1].base, "1 thread");
  EXPECT_GT(rows[1].of_base.value(), 0);
}

TEST(BenchTrain, WithANumberOfThreadsMeasuresOneRow) {
  const std::vector<Row> rows = run(small_case("translator"), 2, 2, true);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].threads, 2);
  EXPECT_FALSE(rows[0].profile.empty());
}

}  // namespace
}  // namespace heed::bench
