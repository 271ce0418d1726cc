#include "bench/harness.h"

#include <gtest/gtest.h>

#include <string>

#include "heed/parallel/parallel_for.h"

namespace heed::bench {
namespace {

constexpr Probe kQuiet{100, 90, 0.9};
constexpr Probe kBusy{100, 60, 0.6};

// A clock that only the contenders move, and probes that tell what `probe` says.
struct HarnessTest : testing::Test {
  ~HarnessTest() override { set_threads(threads_before); }

  Harness harness(int repetitions) {
    HarnessOptions options;
    options.repetitions = repetitions;
    options.least_seconds = 1e-3;
    options.row_seconds = 0;
    Instruments instruments;
    instruments.probe = [this](int slices) {
      slices_of_probes.push_back(slices);
      return probe();
    };
    instruments.now = [this] { return now; };
    instruments.waiting_seconds = [this] { return waiting; };
    instruments.pause = [this](double seconds) { pauses.push_back(seconds); };
    return Harness(options, instruments);
  }

  // A contender whose call takes `seconds`.
  Contender taking(double seconds, double flops) {
    Contender contender;
    contender.flops = flops;
    contender.call = [this, seconds] {
      ++calls;
      now += seconds;
    };
    return contender;
  }

  int threads_before = threads();
  double now = 0;
  double waiting = 0;
  int calls = 0;
  std::vector<int> slices_of_probes;
  std::vector<double> pauses;
  std::function<Probe()> probe = [] { return kQuiet; };
};

TEST_F(HarnessTest, AShareIsWorkOverTimeOverTheMeanOfTheProbesAroundIt) {
  int probes = 0;
  probe = [&] { return probes++ % 2 == 0 ? Probe{98, 90, 0.9} : Probe{102, 90, 0.9}; };
  const Measurement result = harness(3).measure({taking(0.5, 25e9)}).front();
  EXPECT_DOUBLE_EQ(result.seconds, 0.5);
  EXPECT_DOUBLE_EQ(result.gflops, 50);
  EXPECT_DOUBLE_EQ(result.peak_gflops, 100);
  EXPECT_DOUBLE_EQ(result.of_peak, 0.5);
}

TEST_F(HarnessTest, WhatCountsIsTheMedianOfTheRatios) {
  // Two calls find the pace; then repetitions of 1, 1, 1, 4 and 4 seconds.
  Contender contender = taking(0, 100e9);
  contender.call = [&] { now += ++calls > 5 ? 4 : 1; };
  EXPECT_DOUBLE_EQ(harness(5).measure({contender}).front().of_peak, 1);
}

TEST_F(HarnessTest, AQuietMachineNeedsNothingTwice) {
  const Measurement result = harness(5).measure({taking(1, 1e9)}).front();
  EXPECT_EQ(result.repetitions, 5);
  EXPECT_EQ(result.repeated, 0);
  EXPECT_EQ(result.busy, 0);
}

TEST_F(HarnessTest, ABusyProbeBeforeOrAfterMakesARepetitionRepeat) {
  // The probes after the fourth call, and so before the fifth.
  probe = [&] { return calls == 4 ? kBusy : kQuiet; };
  const Measurement result = harness(6).measure({taking(1, 1e9)}).front();
  EXPECT_EQ(result.repetitions, 6);
  EXPECT_EQ(result.repeated, 2);
  EXPECT_EQ(result.busy, 0);
}

TEST_F(HarnessTest, ATakenCoreMakesARepetitionRepeat) {
  // The fourth call waits for the core as long as it runs.
  Contender contender = taking(0, 1e9);
  contender.call = [&] {
    ++calls;
    now += calls == 4 ? 2 : 1;
    waiting += calls == 4 ? 1 : 0;
  };
  const Measurement result = harness(6).measure({contender}).front();
  EXPECT_EQ(result.repeated, 1);
  EXPECT_DOUBLE_EQ(result.seconds, 1);
}

TEST_F(HarnessTest, RepetitionsAreBoundedAndTheBusyOnesCounted) {
  // Quiet until the measuring begins, then busy for good.
  probe = [&] { return calls < 2 ? kQuiet : kBusy; };
  const Measurement result = harness(4).measure({taking(1, 1e9)}).front();
  EXPECT_EQ(result.repetitions, 4);
  EXPECT_EQ(result.repeated, 8);
  EXPECT_EQ(result.busy, 4);
}

TEST_F(HarnessTest, WaitsLongerAndLongerForABusyPhaseToPass) {
  probe = [&] { return calls < 2 || calls > 6 ? kQuiet : kBusy; };
  harness(4).measure({taking(1, 1e9)});
  ASSERT_EQ(pauses.size(), 5U);  // calls 3 to 7, the last one with a quiet probe after it
  EXPECT_DOUBLE_EQ(pauses[1], 2 * pauses[0]);
  EXPECT_DOUBLE_EQ(pauses[3], 8 * pauses[0]);
}

TEST_F(HarnessTest, SevenRepetitionsAtLeastUnlessTold) {
  EXPECT_EQ(harness(0).measure({taking(1, 1e9)}).front().repetitions, 7);
}

TEST_F(HarnessTest, ShortCallsAreGroupedIntoARepetition) {
  harness(1).measure({taking(1e-4, 1e9)});
  EXPECT_EQ(calls, 2 + 10);
}

TEST_F(HarnessTest, ProbesAroundLongCallsAreLonger) {
  harness(1).measure({taking(1e-3, 1e9)});
  EXPECT_EQ(slices_of_probes.back(), kFewSlices);
  harness(1).measure({taking(0.1, 1e9)});
  EXPECT_GT(slices_of_probes.back(), kFewSlices);
}

TEST_F(HarnessTest, ContendersTakeTurns) {
  std::string turns;
  const auto named = [&](char name) {
    Contender contender = taking(1, 1e9);
    contender.call = [&turns, name, call = contender.call] {
      turns += name;
      call();
    };
    return contender;
  };
  harness(3).measure({named('a'), named('b')});
  EXPECT_EQ(turns, "aabbababab");  // two calls each to find the pace, then rounds
}

TEST_F(HarnessTest, SpeedOverTheFirstContenderIsWorkOverTime) {
  const std::vector<Measurement> results = harness(3).measure({taking(1, 1e9), taking(2, 6e9)});
  EXPECT_DOUBLE_EQ(results[0].of_first, 1);
  EXPECT_DOUBLE_EQ(results[1].of_first, 3);
}

TEST_F(HarnessTest, APlainReadIsComparedByBytes) {
  Contender read = taking(1, 0);
  read.bytes = 8e9;
  const std::vector<Measurement> results = harness(3).measure({read});
  EXPECT_DOUBLE_EQ(results[0].gbps, 8);
  EXPECT_DOUBLE_EQ(results[0].of_first, 1);
}

TEST_F(HarnessTest, EachContenderHasItsThreads) {
  std::vector<int> seen;
  Contender one = taking(1, 1e9);
  one.call = [&, call = one.call] {
    seen.push_back(threads());
    call();
  };
  Contender two = one;
  two.threads = 2;
  harness(2).measure({one, two});
  EXPECT_EQ(seen, (std::vector<int>{1, 1, 2, 2, 1, 2, 2, 1, 2, 2}));
}

TEST_F(HarnessTest, TheCallThatWakesSeveralThreadsDoesNotCount) {
  Contender two;
  two.threads = 2;
  two.flops = 1e9;
  two.call = [&] { now += calls++ % 2 == 0 ? 5 : 1; };  // the first of two is slow
  EXPECT_DOUBLE_EQ(harness(3).measure({two}).front().seconds, 1);
}

}  // namespace
}  // namespace heed::bench
