#include "heed/parallel/parallel_for.h"

#include <sched.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "heed/core/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace heed {
namespace {

constexpr int kMostThreads = 1024;
// How often an idle worker looks for work before it sleeps: about 20 µs, longer than the gap between two ops of a
// model and far shorter than anything a user would notice as a busy core.
constexpr int kSpins = 1000;

void pause_briefly() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

int available_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) {
    const int count = CPU_COUNT(&cores);
    if (count > 0) return count < kMostThreads ? count : kMostThreads;
  }
  return 1;
}

// Waits until `value` differs from `old`: a short spin, then sleep.
void wait_for_change(const std::atomic<uint32_t>& value, uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause_briefly();
  }
  value.wait(old, std::memory_order_acquire);
}

// True on a thread that is running a body, where a further parallel_for runs alone.
thread_local bool inside_body = false;

class Pool {
 public:
  explicit Pool(int threads) {
    workers_.reserve(static_cast<size_t>(threads - 1));
    try {
      for (int worker = 1; worker < threads; ++worker) workers_.emplace_back([this, worker] { serve(worker); });
    } catch (...) {
      stop();
      throw;
    }
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() { stop(); }

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  void run(int64_t tasks, detail::TaskFunction function, void* context) {
    tasks_ = tasks;
    function_ = function;
    context_ = context;
    error_ = nullptr;
    next_.store(0, std::memory_order_relaxed);
    busy_.store(static_cast<uint32_t>(workers_.size()), std::memory_order_relaxed);
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
    work(0);
    for (uint32_t left = busy_.load(std::memory_order_acquire); left != 0;
         left = busy_.load(std::memory_order_acquire)) {
      wait_for_change(busy_, left);
    }
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void serve(int worker) {
    uint32_t seen = 0;
    for (;;) {
      wait_for_change(round_, seen);
      seen = round_.load(std::memory_order_acquire);
      if (stopping_) return;
      work(worker);
      if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
    }
  }

  void work(int worker) {
    inside_body = true;
    try {
      for (int64_t task = next_.fetch_add(1, std::memory_order_relaxed); task < tasks_;
           task = next_.fetch_add(1, std::memory_order_relaxed)) {
        function_(context_, task, worker);
      }
    } catch (...) {
      next_.store(tasks_, std::memory_order_relaxed);
      const std::lock_guard lock(error_mutex_);
      if (!error_) error_ = std::current_exception();
    }
    inside_body = false;
  }

  void stop() {
    stopping_ = true;
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  std::vector<std::thread> workers_;
  bool stopping_ = false;  // written before round_ is released
  int64_t tasks_ = 0;
  detail::TaskFunction function_ = nullptr;
  void* context_ = nullptr;
  std::exception_ptr error_;
  std::mutex error_mutex_;
  alignas(64) std::atomic<uint32_t> round_{0};  // one more each run
  alignas(64) std::atomic<uint32_t> busy_{0};   // workers that have not finished the round
  alignas(64) std::atomic<int64_t> next_{0};    // the next task to claim
};

struct PoolState {
  std::mutex mutex;  // held while the pool runs or changes
  std::unique_ptr<Pool> pool;
  std::atomic<int> threads{available_cores()};
};

PoolState& state() {
  static PoolState pool_state;
  return pool_state;
}

void run_alone(int64_t tasks, detail::TaskFunction function, void* context) {
  for (int64_t task = 0; task < tasks; ++task) function(context, task, 0);
}

}  // namespace

void set_threads(int n) {
  check(n >= 1 && n <= kMostThreads, "set_threads", "asked for ", n, " threads; give 1 to ", kMostThreads);
  PoolState& pools = state();
  const std::lock_guard lock(pools.mutex);
  if (pools.pool && pools.pool->threads() != n) pools.pool.reset();
  pools.threads.store(n);
}

int threads() { return state().threads.load(std::memory_order_relaxed); }

namespace detail {

void run_tasks(int64_t tasks, TaskFunction function, void* context) {
  if (tasks <= 0) return;
  PoolState& pools = state();
  if (tasks == 1 || inside_body || threads() == 1) return run_alone(tasks, function, context);
  const std::unique_lock lock(pools.mutex, std::try_to_lock);
  if (!lock.owns_lock()) return run_alone(tasks, function, context);
  if (!pools.pool) pools.pool = std::make_unique<Pool>(threads());
  pools.pool->run(tasks, function, context);
}

}  // namespace detail
}  // namespace heed
