#include "heed/trace/trace.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/expect_error.h"

namespace heed {
namespace {

// [2, 4, 6, 3] with values 0, 1, 2, …
Tensor counting() {
  Tensor made({2, 4, 6, 3});
  std::iota(made.values().begin(), made.values().end(), 0.0F);
  return made;
}

TEST(Trace, RecordsEverythingWithoutAFilter) {
  const Tensor q = counting();
  Trace trace;
  trace.record("q", {"B", "Tq", "H", "Dk"}, q.view<4>());
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
  trace.record("q", {"B", "Tq", "H", "Dk"}, q.view<4>());
  trace.record("k", {"B", "Tk", "Hkv", "Dk"}, q.view<4>(), 2);  // query head 5 reads key/value head 2
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

TEST(Trace, RefusesHeadsAndQueriesThatAreNotThere) {
  const Tensor q = counting();
  const auto record = [&](const TraceFilter& filter) {
    Trace trace(filter);
    trace.record("q", {"B", "Tq", "H", "Dk"}, q.view<4>());
  };
  test::expect_error([&] { record({{}, 6, {}}); }, {"head 6", "there are 6"});
  test::expect_error([&] { record({{}, -1, {}}); }, {"head -1"});
  test::expect_error([&] { record({{}, {}, QueryRange{3, 5}}); }, {"queries 3 to 5", "there are 4"});
  test::expect_error([&] { record({{}, {}, QueryRange{3, 2}}); }, {"queries 3 to 2"});
}

}  // namespace
}  // namespace heed
