#include "heed/parallel/parallel_for.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "heed/core/error.h"
#include "tests/support/allocation_counter.h"

namespace heed {
namespace {

// Each test begins with more threads than most machines have cores to spare, and leaves the default behind.
class ParallelFor : public testing::Test {
 protected:
  void SetUp() override { set_threads(kThreads); }
  void TearDown() override { set_threads(default_threads_); }

  static constexpr int kThreads = 4;

 private:
  int default_threads_ = threads();
};

// How often each of `tasks` tasks ran.
std::vector<int> count_runs(int64_t tasks) {
  std::vector<std::atomic<int>> runs(static_cast<size_t>(tasks));
  parallel_for(tasks, [&](int64_t task, int) { runs[static_cast<size_t>(task)].fetch_add(1); });
  return {runs.begin(), runs.end()};
}

TEST_F(ParallelFor, RunsEveryTaskOnce) {
  for (const int n : {1, 2, 3, 4, 7}) {
    set_threads(n);
    for (const int64_t tasks : {1, 2, 3, 4, 5, 63, 1000}) {
      EXPECT_EQ(count_runs(tasks), std::vector<int>(static_cast<size_t>(tasks), 1)) << n << " threads";
    }
  }
}

TEST_F(ParallelFor, RunsEveryTaskOnceInManyShortCalls) {
  for (int call = 0; call < 5000; ++call) {
    std::atomic<int> runs{0};
    parallel_for(3, [&](int64_t, int) { runs.fetch_add(1); });
    ASSERT_EQ(runs.load(), 3) << "call " << call;
  }
}

TEST_F(ParallelFor, RunsNothingForNoTasks) {
  for (const int64_t tasks : {0, -1}) {
    parallel_for(tasks, [](int64_t, int) { FAIL() << "a body ran"; });
  }
}

TEST_F(ParallelFor, NeverSharesAWorkerBetweenRunningBodies) {
  std::vector<std::atomic<bool>> busy(kThreads);
  std::atomic<int> shared{0};
  std::atomic<int> out_of_range{0};
  for (int call = 0; call < 200; ++call) {
    parallel_for(16, [&](int64_t, int worker) {
      if (worker < 0 || worker >= threads()) {
        out_of_range.fetch_add(1);
        return;
      }
      auto& mine = busy[static_cast<size_t>(worker)];
      if (mine.exchange(true)) shared.fetch_add(1);
      std::this_thread::yield();
      mine.store(false);
    });
  }
  EXPECT_EQ(shared.load(), 0);
  EXPECT_EQ(out_of_range.load(), 0);
}

TEST_F(ParallelFor, UsesOtherThreads) {
  // Each body waits until the other has begun: they end only when two threads run them.
  std::atomic<int> begun{0};
  parallel_for(2, [&](int64_t, int) {
    begun.fetch_add(1);
    while (begun.load() < 2) std::this_thread::yield();
  });
  EXPECT_EQ(begun.load(), 2);
}

TEST_F(ParallelFor, WakesWorkersThatSleep) {
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic<int> begun{0};
    parallel_for(kThreads, [&](int64_t, int) {
      begun.fetch_add(1);
      while (begun.load() < kThreads) std::this_thread::yield();
    });
    EXPECT_EQ(begun.load(), kThreads);
  }
}

// A worker that is queued behind its caller is no help.
TEST_F(ParallelFor, WorkersThatDidNotComeAreKeptOffTheCallersCore) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  if (CPU_COUNT(&before) < 2) GTEST_SKIP() << "one core";
  set_threads(2);
  parallel_for(2, [](int64_t, int) {});  // the pool is up, on all cores
  for (int core = 0, moves = 0; moves < 2; ++core) {
    if (!CPU_ISSET(core, &before)) continue;
    ++moves;
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(core, &here);
    ASSERT_EQ(sched_setaffinity(0, sizeof(here), &here), 0);
    for (int call = 0; call < 20; ++call) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the worker sleeps, so it comes too late:
      parallel_for(2, [](int64_t, int) {});
    }
    cpu_set_t workers;
    CPU_ZERO(&workers);
    std::atomic<int> begun{0};
    parallel_for(2, [&](int64_t, int worker) {
      if (worker != 0) sched_getaffinity(0, sizeof(workers), &workers);
      begun.fetch_add(1);
      while (begun.load() < 2) std::this_thread::yield();
    });
    EXPECT_FALSE(CPU_ISSET(core, &workers)) << "core " << core;
    EXPECT_EQ(CPU_COUNT(&workers), CPU_COUNT(&before) - 1);
  }
  sched_setaffinity(0, sizeof(before), &before);
}

TEST_F(ParallelFor, RunsANestedCallOnTheCallingThread) {
  std::atomic<int> runs{0};
  std::atomic<int> elsewhere{0};
  parallel_for(8, [&](int64_t, int) {
    const auto outer = std::this_thread::get_id();
    parallel_for(8, [&](int64_t, int worker) {
      runs.fetch_add(1);
      if (std::this_thread::get_id() != outer || worker != 0) elsewhere.fetch_add(1);
    });
  });
  EXPECT_EQ(runs.load(), 64);
  EXPECT_EQ(elsewhere.load(), 0);
}

TEST_F(ParallelFor, ServesTwoCallersAtOnce) {
  std::atomic<int> wrong{0};
  const auto caller = [&] {
    for (int call = 0; call < 300; ++call) {
      if (count_runs(9) != std::vector<int>(9, 1)) wrong.fetch_add(1);
    }
  };
  std::thread other(caller);
  caller();
  other.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST_F(ParallelFor, ThrowsTheExceptionOfABodyAgain) {
  for (const int n : {1, kThreads}) {
    set_threads(n);
    for (const int64_t bad : {0, 5, 99}) {
      try {
        parallel_for(100, [&](int64_t task, int) {
          if (task == bad) throw std::runtime_error("task " + std::to_string(task));
        });
        ADD_FAILURE() << "nothing was thrown";
      } catch (const std::runtime_error& error) {
        EXPECT_EQ(error.what(), "task " + std::to_string(bad));
      }
      EXPECT_EQ(count_runs(100), std::vector<int>(100, 1)) << "the call after a throw";
    }
  }
}

TEST_F(ParallelFor, ThrowsOneExceptionWhenAllBodiesThrow) {
  EXPECT_THROW(parallel_for(100, [](int64_t, int) { throw std::runtime_error("every body"); }), std::runtime_error);
}

TEST_F(ParallelFor, BeginsNoFurtherTaskAfterAThrow) {
  std::atomic<int> runs{0};
  const auto body = [&](int64_t, int) {
    runs.fetch_add(1);
    throw std::runtime_error("first");
  };
  EXPECT_THROW(parallel_for(1000000, body), std::runtime_error);
  EXPECT_LE(runs.load(), kThreads);
}

TEST_F(ParallelFor, AllocatesNothingAfterTheFirstCall) {
  std::atomic<int> runs{0};
  const auto body = [&](int64_t, int) { runs.fetch_add(1); };
  parallel_for(64, body);
  const int64_t before = test::allocation_count();
  for (int call = 0; call < 100; ++call) parallel_for(64, body);
  EXPECT_EQ(test::allocation_count(), before);
  EXPECT_EQ(runs.load(), 101 * 64);
}

TEST_F(ParallelFor, TakesTemporaryAndConstBodies) {
  const auto sum = std::make_unique<std::atomic<int64_t>>(0);
  parallel_for(10, [&total = *sum](int64_t task, int) { total += task; });
  const auto body = [&total = *sum](int64_t task, int) { total += task; };
  parallel_for(10, body);
  EXPECT_EQ(sum->load(), 90);
}

TEST_F(ParallelFor, WritesOfBodiesAreSeenByTheCaller) {
  std::vector<int64_t> plain(1000);
  for (int64_t call = 1; call <= 50; ++call) {
    parallel_for(1000, [&](int64_t task, int) { plain[static_cast<size_t>(task)] += task * call; });
  }
  for (size_t task = 0; task < plain.size(); ++task) ASSERT_EQ(plain[task], static_cast<int64_t>(task) * 1275);
}

// The sanitizers cannot follow threads that a forked child starts.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
TEST_F(ParallelFor, WorksInAForkedChild) {
  count_runs(16);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);
    const bool right = count_runs(16) == std::vector<int>(16, 1);
    set_threads(2);
    _exit(right && count_runs(16) == std::vector<int>(16, 1) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}
#endif

TEST_F(ParallelFor, SetThreadsChangesThreads) {
  for (const int n : {1, 2, 5, 1024, 3}) {
    set_threads(n);
    EXPECT_EQ(threads(), n);
  }
}

TEST_F(ParallelFor, SetThreadsRefusesBadCounts) {
  for (const int n : {0, -1, 1025}) {
    try {
      set_threads(n);
      ADD_FAILURE() << n << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), "set_threads: asked for " + std::to_string(n) + " threads; give 1 to 1024");
    }
    EXPECT_EQ(threads(), kThreads);
  }
}

TEST_F(ParallelFor, SetThreadsRefusesACallFromABody) {
  EXPECT_THROW(parallel_for(4, [](int64_t, int) { set_threads(2); }), Error);
  EXPECT_EQ(threads(), kThreads);
}

}  // namespace
}  // namespace heed
