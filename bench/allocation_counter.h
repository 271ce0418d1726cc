// Counts heap allocations of the whole process, so that a bench or a test can say how many a call makes. Programs that
// link it (heed, and those of the tests) have their operator new replaced by one that counts.
#pragma once

#include <cstdint>

namespace heed::bench {

// Allocations by operator new, of all threads, since the program began.
int64_t allocation_count();

}  // namespace heed::bench
