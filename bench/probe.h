// How fast the machine is at this moment: peak multiply-adds and reads from the first-level cache, side by side.
#pragma once

#include <cstdint>

namespace heed::bench {

struct Probe {
  double gflops = 0;      // multiply-add peak of the threads together
  double read_gbps = 0;   // first-level cache reads of the threads together
  double read_share = 0;  // read_gbps / gflops of the slowest thread: it falls when something else uses the core
};

// The number of slices of a probe that is short beside the few milliseconds of a repetition (about 0.8 ms).
inline constexpr int kFewSlices = 5;

// A probe takes turns of about 40 µs between multiply-adds and reads, `slices` times, on heed::threads() threads at
// once, and gives medians: an interrupt or a change of frequency inside it does no harm.
Probe measure_probe(int slices = kFewSlices);

// GB/s at which heed::threads() threads together read `count` floats, each thread a part of its own: the best of a few
// passes. For memory rather than caches give several times the last cache, written before.
double measure_memory_read(const float* data, int64_t count);

}  // namespace heed::bench
