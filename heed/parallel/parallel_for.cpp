#include "heed/parallel/parallel_for.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "heed/core/error.h"

namespace heed {
namespace {

constexpr int kMostThreads = 1024;

// How long a thread looks for work before it sleeps: longer than the gap between two ops of a model, far shorter than
// anything a user would notice as a busy core.
constexpr std::chrono::microseconds kSpinTime{50};

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Waits until `value` differs from `old`: a short spin, then sleep.
void wait_for_change(const std::atomic<uint32_t>& value, uint32_t old) {
  constexpr int kLooksPerClock = 16;
  const auto until = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < kLooksPerClock; ++i) {
      if (value.load(std::memory_order_acquire) != old) return;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < until);
  value.wait(old, std::memory_order_acquire);
}

// True on a thread that is running a body of the pool, where a nested parallel_for runs on that thread alone.
thread_local bool inside_body = false;

// The workers, and the one job they may be helping with. The caller of run() opens the job, works on it itself, closes
// it when no task is left, and waits for the workers that have joined. It never waits for a worker that is still
// asleep: a short job is over before a sleeper wakes.
class Pool {
 public:
  // Limits on processes or memory may leave fewer than `threads`: those do all the work.
  explicit Pool(int threads) {
    sched_getaffinity(0, sizeof(cores_), &cores_);
    workers_.reserve(static_cast<size_t>(threads - 1));
    try {
      for (int worker = 1; worker < threads; ++worker) workers_.emplace_back([this, worker] { serve(worker); });
    } catch (const std::system_error&) {  // no more threads
    } catch (const std::bad_alloc&) {     // nor memory for one
    }
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() { stop(); }

  // Running threads, including the caller's.
  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  void run(int64_t tasks, detail::TaskFunction function, void* context) {
    tasks_ = tasks;
    function_ = function;
    context_ = context;
    next_.store(0, std::memory_order_relaxed);
    joined_.store(0, std::memory_order_relaxed);
    gate_.store(0, std::memory_order_release);
    round_.fetch_add(1, std::memory_order_release);
    wake(tasks - 1);
    work(0);
    gate_.fetch_or(kClosed, std::memory_order_acq_rel);
    for (uint32_t gate = gate_.load(std::memory_order_acquire); gate != kClosed;
         gate = gate_.load(std::memory_order_acquire)) {
      wait_for_change(gate_, gate);
    }
    const int64_t called = std::min(tasks - 1, static_cast<int64_t>(workers_.size()));
    if (joined_.load(std::memory_order_relaxed) < called) keep_workers_off_this_core();
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  // gate_ is the number of workers inside the job, and this bit when no more may join.
  static constexpr uint32_t kClosed = 1U << 31;

  void wake(int64_t helpers) {
    if (helpers >= static_cast<int64_t>(workers_.size())) return round_.notify_all();
    for (int64_t i = 0; i < helpers; ++i) round_.notify_one();
  }

  // Linux looks for an idle core only while few are in use, so it may queue a woken worker behind the thread that woke
  // it, for milliseconds, job after job, with the next core idle (seen in half of all phases of a machine with two). So
  // if a worker did not respond, the workers' affinity excludes the caller's core until the caller has moved.
  void keep_workers_off_this_core() {
    const int core = sched_getcpu();
    if (core < 0 || core == avoided_core_ || core >= CPU_SETSIZE) return;
    avoided_core_ = core;
    cpu_set_t others = cores_;
    CPU_CLR(core, &others);
    if (CPU_COUNT(&others) == 0) return;
    for (std::thread& worker : workers_) pthread_setaffinity_np(worker.native_handle(), sizeof(others), &others);
  }

  void serve(int worker) {
    uint32_t seen = 0;
    for (;;) {
      wait_for_change(round_, seen);
      seen = round_.load(std::memory_order_acquire);
      if (stopping_.load(std::memory_order_relaxed)) return;
      if (!join()) continue;
      work(worker);
      if (gate_.fetch_sub(1, std::memory_order_acq_rel) == kClosed + 1) gate_.notify_one();
    }
  }

  bool join() {
    uint32_t gate = gate_.load(std::memory_order_acquire);
    while ((gate & kClosed) == 0) {
      if (!gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
      joined_.fetch_add(1, std::memory_order_relaxed);
      return true;
    }
    return false;
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
    stopping_.store(true, std::memory_order_relaxed);
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  std::vector<std::thread> workers_;
  cpu_set_t cores_{};      // that the pool may run on
  int avoided_core_ = -1;  // the caller's, when a worker last did not come
  std::atomic<bool> stopping_{false};
  int64_t tasks_ = 0;
  detail::TaskFunction function_ = nullptr;
  void* context_ = nullptr;
  std::exception_ptr error_;
  std::mutex error_mutex_;
  alignas(64) std::atomic<uint32_t> round_{0};  // one more for each job; sleeping workers wait for it to change
  alignas(64) std::atomic<uint32_t> gate_{kClosed};
  alignas(64) std::atomic<int64_t> next_{0};  // the next task to claim
  std::atomic<int64_t> joined_{0};            // workers that have joined the job
};

int available_cores() {
  cpu_set_t cores;
  const bool known = sched_getaffinity(0, sizeof(cores), &cores) == 0;
  const int count = known ? CPU_COUNT(&cores) : static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(count, 1, kMostThreads);
}

struct PoolState {
  std::mutex mutex;  // held while the pool runs or changes
  std::unique_ptr<Pool> pool;
  std::atomic<int> threads{available_cores()};
  std::atomic<int> started{1};  // of the current pool
  std::atomic<int> missing{0};  // the most that a pool had to do without
};

// Never destroyed: static destructors of the program may still call parallel_for.
PoolState& state() {
  static PoolState& only = *new PoolState;
  return only;
}

// A forked child has none of its parent's workers: it starts its own when it needs them.
void forget_workers() {
  PoolState& pools = state();
  static_cast<void>(pools.pool.release());
  new (&pools.mutex) std::mutex;
}

void start_pool(PoolState& pools) {
  static const int watching_forks = pthread_atfork(nullptr, nullptr, forget_workers);
  check(watching_forks == 0, "parallel_for", "out of memory");
  pools.pool = std::make_unique<Pool>(threads());
  pools.started.store(pools.pool->threads());
  pools.missing.store(std::max(pools.missing.load(), threads() - pools.pool->threads()));
}

void run_alone(int64_t tasks, detail::TaskFunction function, void* context) {
  for (int64_t task = 0; task < tasks; ++task) function(context, task, 0);
}

}  // namespace

void set_threads(int n) {
  check(n >= 1 && n <= kMostThreads, "set_threads", "asked for ", n, " threads; give 1 to ", kMostThreads);
  check(!inside_body, "set_threads", "called from the body of a parallel_for; call it outside");
  PoolState& pools = state();
  const std::lock_guard lock(pools.mutex);
  if (pools.pool && pools.pool->threads() != n) pools.pool.reset();
  pools.threads.store(n);
}

int threads() { return state().threads.load(std::memory_order_relaxed); }

int threads_started() {
  if (threads() == 1) return 1;
  PoolState& pools = state();
  if (inside_body) return pools.started.load();
  const std::lock_guard lock(pools.mutex);
  if (!pools.pool) start_pool(pools);
  return pools.pool->threads();
}

int threads_missing() { return state().missing.load(); }

namespace detail {

void run_tasks(int64_t tasks, TaskFunction function, void* context) {
  if (tasks <= 0) return;
  if (tasks == 1 || inside_body || threads() == 1) return run_alone(tasks, function, context);
  PoolState& pools = state();
  const std::unique_lock lock(pools.mutex, std::try_to_lock);
  if (!lock.owns_lock()) return run_alone(tasks, function, context);
  if (!pools.pool) start_pool(pools);
  pools.pool->run(tasks, function, context);
}

}  // namespace detail
}  // namespace heed
