// Counts heap allocations of the whole process, so that a test can prove that a call makes none. Test programs have
// their operator new replaced by one that counts.
#pragma once

#include <cstdint>

namespace heed::test {

// Allocations by operator new, of all threads, since the program began.
int64_t allocation_count();

}  // namespace heed::test
