// Random problems: sizes, masks, layouts, threads and instruction sets, each against the double reference.
#include <gtest/gtest.h>

#include <string>

#include "heed/simd/isa.h"
#include "tests/support/random_case.h"
#include "tests/support/sanitized.h"

namespace heed::test {
namespace {

constexpr int kCases = kSanitized ? 200 : 1500;

TEST(Random, forward_and_backward_match_the_double_reference) {
  for (uint64_t seed = 1; seed <= kCases; ++seed) {
    RandomCase random(seed);
    AttentionCase& c = *random.problem;
    const ReferenceResult expected = reference_result(c);
    for (const Isa isa : supported_isas()) {
      set_isa(isa);
      SCOPED_TRACE("seed " + std::to_string(seed) + " " + std::string(isa_name(isa)) + " " + c.sizes.to_text() +
                   " mask " + c.options.mask.description());
      c.forward();
      c.backward();
      ASSERT_LE(relative_error(values_of(c.out), expected.out), 2e-6);
      ASSERT_LE(relative_error(values_of(c.d_v), expected.d_v), 1e-5);
      ASSERT_LE(relative_error(values_of(c.d_q), expected.d_q, 0.1 * expected.d_q_terms), 1e-5);
      ASSERT_LE(relative_error(values_of(c.d_k), expected.d_k, 0.1 * expected.d_k_terms), 1e-5);
    }
  }
  set_isa(supported_isas().back());
}

}  // namespace
}  // namespace heed::test
