#include "heed/trace/trace.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "tests/support/expect_error.h"

namespace heed {
namespace {

constexpr std::array kQueries = {Dim::b, Dim::t_q, Dim::h, Dim::d_k};
constexpr std::array kKeys = {Dim::b, Dim::t_k, Dim::h_kv, Dim::d_k};

// [2, 4, 6, 3] with values 0, 1, 2, …
Tensor counting() {
  Tensor made({2, 4, 6, 3});
  std::iota(made.values().begin(), made.values().end(), 0.0F);
  return made;
}

TEST(Trace, RecordsEverythingWithoutAFilter) {
  const Tensor q = counting();
  Trace trace;
  trace.record("q", kQueries, q.view<4>());
  const Recording* made = trace.find("q");
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->whole, q.shape());
  EXPECT_EQ(made->values.shape(), q.shape());
  EXPECT_EQ(made->first, (std::vector<int64_t>{0, 0, 0, 0}));
  EXPECT_TRUE(std::equal(q.values().begin(), q.values().end(), made->values.values().begin()));
  EXPECT_EQ(trace.find("k"), nullptr);
}

TEST(Trace, RecordsTheQueriesAndTheHeadAskedFor) {
  const Tensor q = counting();
  Trace trace({{}, 5, QueryRange{1, 3}});
  trace.record("q", kQueries, q.view<4>());
  trace.record("k", kKeys, q.view<4>(), 2);  // query head 5 reads key/value head 2
  const Recording& rows = *trace.find("q");
  EXPECT_EQ(rows.first, (std::vector<int64_t>{0, 1, 5, 0}));
  EXPECT_EQ(rows.values.shape(), (std::vector<int64_t>{2, 2, 1, 3}));
  EXPECT_EQ(rows.values.view<4>()(1, 1, 0, 2), q.view<4>()(1, 2, 5, 2));
  const Recording& keys = *trace.find("k");
  EXPECT_EQ(keys.first, (std::vector<int64_t>{0, 0, 2, 0}));
  EXPECT_EQ(keys.values.shape(), (std::vector<int64_t>{2, 4, 1, 3}));
}

TEST(Trace, TheFilterKnowsStepsByNameAndTheirGradients) {
  const Trace all;
  EXPECT_TRUE(all.wants("weights"));
  EXPECT_TRUE(all.wants("weights.grad"));
  const Trace some({{"weights", "q.grad"}, {}, {}});
  EXPECT_TRUE(some.wants("weights"));
  EXPECT_TRUE(some.wants("weights.grad"));
  EXPECT_TRUE(some.wants("q.grad"));
  EXPECT_FALSE(some.wants("q"));
  EXPECT_FALSE(some.wants("scores"));
}

std::vector<std::string> names_of(const Trace& trace) {
  std::vector<std::string> names;
  for (const Recording& each : trace.recordings()) names.push_back(each.name);
  return names;
}

// Two layers, each with two attentions, that record q and weights.
void record_two_layers(Trace& trace) {
  const Tensor q = counting();
  for (const char* layer : {"layers.0", "layers.1"}) {
    const TraceScope outer(&trace, layer);
    for (const char* attention : {"self", "cross"}) {
      const TraceScope inner(&trace, attention);
      trace.record("q", kQueries, q.view<4>());
      trace.record("weights", kQueries, q.view<4>());
      trace.record("weights.grad", kQueries, q.view<4>());
    }
    trace.record("x", kQueries, q.view<4>());
  }
  trace.record("x", kQueries, q.view<4>());
}

TEST(Trace, ScopesStandBeforeTheNamesAndNest) {
  Trace trace;
  record_two_layers(trace);
  EXPECT_EQ(names_of(trace),
            (std::vector<std::string>{"layers.0.self.q", "layers.0.self.weights", "layers.0.self.weights.grad",
                                      "layers.0.cross.q", "layers.0.cross.weights", "layers.0.cross.weights.grad",
                                      "layers.0.x", "layers.1.self.q", "layers.1.self.weights",
                                      "layers.1.self.weights.grad", "layers.1.cross.q", "layers.1.cross.weights",
                                      "layers.1.cross.weights.grad", "layers.1.x", "x"}));
  EXPECT_NE(trace.find("layers.1.x"), nullptr);
  EXPECT_EQ(trace.find("weights"), nullptr);
}

TEST(Trace, TheFilterKnowsScopesByTheirParts) {
  const auto recorded = [](std::vector<std::string> asked) {
    Trace trace({std::move(asked), {}, {}});
    record_two_layers(trace);
    return names_of(trace);
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(recorded({"q"}), (Names{"layers.0.self.q", "layers.0.cross.q", "layers.1.self.q", "layers.1.cross.q"}));
  EXPECT_EQ(recorded({"cross.q", "layers.1.self.weights"}),
            (Names{"layers.0.cross.q", "layers.1.self.weights", "layers.1.self.weights.grad", "layers.1.cross.q"}));
  EXPECT_EQ(recorded({"layers.0.self"}),
            (Names{"layers.0.self.q", "layers.0.self.weights", "layers.0.self.weights.grad"}));
  EXPECT_EQ(recorded({"layers.1.self.weights.grad"}), (Names{"layers.1.self.weights.grad"}));
  EXPECT_EQ(recorded({"layer"}), Names{});  // whole parts alone
  EXPECT_EQ(recorded({"eights"}), Names{});
}

TEST(Trace, AScopeOfNoTraceIsNothing) {
  const TraceScope none(nullptr, "layers.0");
  Trace trace;
  const Tensor q = counting();
  trace.record("q", kQueries, q.view<4>());
  EXPECT_EQ(names_of(trace), std::vector<std::string>{"q"});
}

TEST(Trace, AnErrorNamesTheScope) {
  Trace trace({{}, 6, {}});
  const TraceScope layer(&trace, "layers.3");
  const Tensor q = counting();
  test::expect_error([&] { trace.record("q", kQueries, q.view<4>()); }, {"layers.3.q", "there are 6"});
}

TEST(Trace, RefusesHeadsAndQueriesThatAreNotThere) {
  const Tensor q = counting();
  const auto record = [&](const TraceFilter& filter) {
    Trace trace(filter);
    trace.record("q", kQueries, q.view<4>());
  };
  test::expect_error([&] { record({{}, 6, {}}); }, {"head 6", "there are 6"});
  test::expect_error([&] { record({{}, -1, {}}); }, {"head -1"});
  test::expect_error([&] { record({{}, {}, QueryRange{3, 5}}); }, {"queries 3 to 5", "there are 4"});
  test::expect_error([&] { record({{}, {}, QueryRange{3, 2}}); }, {"queries 3 to 2"});
}

}  // namespace
}  // namespace heed
