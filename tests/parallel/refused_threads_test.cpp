// Threads that the system does not start. This program's pthread_create stands before the system's: it refuses where a
// test says so, as the system does at a limit on processes or memory.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <set>
#include <vector>

#include "heed/parallel/parallel_for.h"

namespace {

constexpr int kAll = -1;
std::atomic<int> may_start{kAll};
std::atomic<int> refused{0};

}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                              void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (may_start.load() == 0) {
    refused.fetch_add(1);
    return EAGAIN;
  }
  if (may_start.load() > 0) may_start.fetch_sub(1);
  return create(thread, attributes, run, argument);
}

namespace heed {
namespace {

class RefusedThreads : public testing::Test {
 protected:
  void SetUp() override { refused.store(0), set_threads(1); }  // ends the workers of other tests
  void TearDown() override {
    may_start.store(kAll);
    set_threads(default_threads_);
  }

  // `asked` threads, of which the system starts `started`, the caller's own included.
  static void ask_for(int asked, int started) {
    refused.store(0);
    may_start.store(started - 1);
    set_threads(1);
    set_threads(asked);
  }

  // The sum of task · task, and the workers that were seen.
  static int64_t sum_of_squares(std::set<int>& workers) {
    constexpr int64_t kTasks = 1000;
    std::vector<int64_t> squares(kTasks);
    std::vector<std::atomic<bool>> seen(static_cast<size_t>(threads()));
    parallel_for(kTasks, [&](int64_t task, int worker) {
      squares[static_cast<size_t>(task)] = task * task;
      seen[static_cast<size_t>(worker)].store(true);
    });
    for (int worker = 0; worker < threads(); ++worker) {
      if (seen[static_cast<size_t>(worker)]) workers.insert(worker);
    }
    int64_t sum = 0;
    for (const int64_t square : squares) sum += square;
    return sum;
  }

 private:
  int default_threads_ = threads();
};

TEST_F(RefusedThreads, TheOthersDoAllTheWork) {
  for (const int started : {1, 2, 3}) {
    ask_for(8, started);
    for (int call = 0; call < 20; ++call) {
      std::set<int> workers;
      EXPECT_EQ(sum_of_squares(workers), 332833500);
      EXPECT_LT(*workers.rbegin(), started);
    }
    EXPECT_EQ(refused.load(), 1) << "the pool asked once more after a refusal, or not at all";
  }
}

TEST_F(RefusedThreads, AreTold) {
  ask_for(8, 3);
  EXPECT_EQ(threads_started(), 3);
  EXPECT_EQ(threads(), 8) << "what was asked for, by which scratch memory is laid out";
  EXPECT_GE(threads_missing(), 5);
}

TEST_F(RefusedThreads, AreAskedForAgainBySetThreads) {
  ask_for(4, 2);
  EXPECT_EQ(threads_started(), 2);
  may_start.store(kAll);
  EXPECT_EQ(threads_started(), 2);
  set_threads(4);
  EXPECT_EQ(threads_started(), 4);
}

TEST_F(RefusedThreads, OfThreadsThatStartNoneIsMissing) {
  set_threads(3);
  EXPECT_EQ(threads_started(), 3);
  EXPECT_EQ(refused.load(), 0);
  parallel_for(2, [](int64_t, int) { EXPECT_EQ(threads_started(), 3); });
  set_threads(1);
  EXPECT_EQ(threads_started(), 1);
}

}  // namespace
}  // namespace heed
