// The thread pool and parallel_for: the only place in Heed that starts threads.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace heed {

// How many threads calls may use, including the calling thread. The default is the number of cores the process may run
// on. Results never depend on it. An Error if n < 1 or n > 1024, or when called from inside a body. Do not call it
// while another thread is inside a call of the library.
void set_threads(int n);
int threads();

// How many of them were started: fewer than threads() if limits on processes or memory prevented some from starting.
// Calls then run on those; set_threads() tries again. Starts the threads if no call has done so yet.
int threads_started();

// The largest number of threads that any set_threads() failed to start; 0 if all were started.
int threads_missing();

namespace detail {
using TaskFunction = void (*)(void* context, int64_t task, int worker);
void run_tasks(int64_t tasks, TaskFunction function, void* context);
}  // namespace detail

// Calls body(task, worker) once for each task in 0 … tasks-1, in any order, on up to threads() threads, and returns
// when all are done. worker is in 0 … threads()-1, and no two bodies of a call that run at the same time share it, so
// it can index per-worker scratch. Tasks are claimed in order: put the heavy ones first. A call with one task, from
// inside a body, or while another thread's call is using the pool, runs on the calling thread alone (worker 0). If a
// body throws, no further task starts, and the first exception is rethrown here. Allocates nothing once the pool has
// started.
template <class Body>
void parallel_for(int64_t tasks, Body&& body) {
  using Callable = std::remove_reference_t<Body>;
  detail::run_tasks(
      tasks, [](void* context, int64_t task, int worker) { (*static_cast<Callable*>(context))(task, worker); },
      const_cast<void*>(static_cast<const void*>(std::addressof(body))));
}

}  // namespace heed
