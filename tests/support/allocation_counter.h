// The number of heap allocations of the whole process, so that a test can prove that a call makes none.
#pragma once

#include "bench/allocation_counter.h"

namespace heed::test {

using bench::allocation_count;

}  // namespace heed::test
