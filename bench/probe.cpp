#include "bench/probe.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "bench/statistics.h"
#include "heed/core/memory.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/probe.h"

namespace heed::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kRounds = 20000;     // about 40 µs of multiply-adds
constexpr int64_t kReadFloats = 4096;  // 16 KiB, half of the smallest first-level cache
constexpr int64_t kReadPasses = 500;   // about 40 µs of reads
// After narrower code a core wakes its widest units only after some 300 µs of use, at two thirds of the speed.
constexpr int64_t kWakeRounds = 10 * kRounds;
constexpr int kMemoryPasses = 5;
constexpr int64_t kReadBytes = kReadFloats * 4 * kReadPasses;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The probe of the calling thread.
Probe probe_this_thread(int slices) {
  thread_local const AlignedArray<float> data = [] {
    AlignedArray<float> values = allocate_aligned<float>(kReadFloats);
    std::fill_n(values.get(), kReadFloats, 1.0F);
    return values;
  }();
  std::vector<double> gflops, gbps, share;
  probe_multiply_add(kWakeRounds);
  probe_read(data.get(), kReadFloats, 1);
  for (int slice = 0; slice < slices; ++slice) {
    auto start = Clock::now();
    const int64_t flops = probe_multiply_add(kRounds);
    gflops.push_back(static_cast<double>(flops) * 1e-9 / seconds_since(start));
    start = Clock::now();
    probe_read(data.get(), kReadFloats, kReadPasses);
    gbps.push_back(static_cast<double>(kReadBytes) * 1e-9 / seconds_since(start));
    share.push_back(gbps.back() / gflops.back());
  }
  return {median(gflops), median(gbps), median(share)};
}

// Runs body(thread) on all threads that there are, at the same time.
template <class Body>
void on_all_threads(Body body) {
  const int count = threads_started();
  std::atomic<int> waiting{count};
  parallel_for(count, [&](int64_t task, int) {
    waiting.fetch_sub(1);
    while (waiting.load() > 0) std::this_thread::yield();
    body(static_cast<size_t>(task));
  });
}

}  // namespace

Probe measure_probe(int slices) {
  std::vector<Probe> each(static_cast<size_t>(threads_started()));
  on_all_threads([&](size_t thread) { each[thread] = probe_this_thread(slices); });
  Probe all{0, 0, each.front().read_share};
  for (const Probe& one : each) {
    all.gflops += one.gflops;
    all.read_gbps += one.read_gbps;
    all.read_share = std::min(all.read_share, one.read_share);
  }
  return all;
}

double measure_memory_read(const float* data, int64_t count) {
  const int64_t part = count / threads_started() / kProbeReadUnit * kProbeReadUnit;
  double best = 0;
  for (int pass = 0; pass < kMemoryPasses; ++pass) {
    const auto start = Clock::now();
    on_all_threads([&](size_t thread) { probe_read(data + static_cast<int64_t>(thread) * part, part, 1); });
    best = std::max(best, static_cast<double>(part * threads_started()) * sizeof(float) * 1e-9 / seconds_since(start));
  }
  return best;
}

}  // namespace heed::bench
