// Threads: one pool, one function. The only place of Heed that starts threads.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace heed {

// How many threads calls may use, the caller's own included. The default is the number of cores the process may run
// on. Results never depend on it. An Error when n < 1 or n > 1024, or from inside a body. Not to be called while
// another thread is in a call of the library.
void set_threads(int n);
int threads();

// How many of them there are: fewer than threads() where limits on processes or memory keep the system from starting
// all, and then calls run on those; set_threads() tries again. Starts them where no call has done so yet.
int threads_started();

// The most threads that any set_threads() had to do without; 0 where all were started.
int threads_missing();

namespace detail {
using TaskFunction = void (*)(void* context, int64_t task, int worker);
void run_tasks(int64_t tasks, TaskFunction function, void* context);
}  // namespace detail

// Calls body(task, worker) once for each task in 0 … tasks-1, in any order, on up to threads() threads, and returns
// when all are done. worker is in 0 … threads()-1 and no two running bodies of a call share it: scratch memory of the
// call is indexed by it. Tasks are claimed in order, so put the heavy ones first. A call with one task, from inside a
// body, or while another thread's call is using the pool, runs on the calling thread alone (worker 0). When a body
// throws, no further task begins, and the first exception is thrown again here. Allocates nothing once the pool is up.
template <class Body>
void parallel_for(int64_t tasks, Body&& body) {
  using Callable = std::remove_reference_t<Body>;
  detail::run_tasks(
      tasks, [](void* context, int64_t task, int worker) { (*static_cast<Callable*>(context))(task, worker); },
      const_cast<void*>(static_cast<const void*>(std::addressof(body))));
}

}  // namespace heed
