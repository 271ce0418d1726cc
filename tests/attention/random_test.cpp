// Random problems: sizes, masks, layouts, threads and instruction sets, each against the double reference.
#include <gtest/gtest.h>

#include <string>

#include "heed/simd/isa.h"
#include "tests/support/attention_case.h"
#include "tests/support/random_case.h"
#include "tests/support/sanitized.h"
#include "tests/support/score_tensors.h"

namespace heed::test {
namespace {

constexpr int kCases = kSanitized ? 200 : 1500;
constexpr int kOptionCases = kSanitized ? 300 : 3000;

TEST(Random, forward_and_backward_match_the_double_reference) {
  for (uint64_t seed = 1; seed <= kCases; ++seed) {
    RandomCase random(seed);
    AttentionCase& c = *random.problem;
    const ReferenceResult expected = reference_result(c);
    for (const Isa isa : supported_isas()) {
      set_isa(isa);
      SCOPED_TRACE("seed " + std::to_string(seed) + " " + std::string(isa_name(isa)) + " " + c.sizes.to_text() +
                   " mask " + c.options.mask.description());
      expect_close(c, expected);
      if (HasFailure()) return set_isa(supported_isas().back());
    }
  }
  set_isa(supported_isas().back());
}

TEST(Random, score_options_with_every_mask_match_the_double_reference) {
  for (uint64_t seed = 1; seed <= kOptionCases; ++seed) {
    RandomCase random(seed + 100000);
    AttentionCase& c = *random.problem;
    ScoreTensors tensors(c, seed);
    Draw draw(seed + 200000);
    const std::string options = tensors.draw_options(draw);
    const ReferenceResult expected = reference_result(c);
    for (const Isa isa : supported_isas()) {
      set_isa(isa);
      SCOPED_TRACE("seed " + std::to_string(seed) + " " + std::string(isa_name(isa)) + " " + c.sizes.to_text() +
                   " mask " + c.options.mask.description() + " options" + options);
      expect_close(c, expected);
      if (HasFailure()) return set_isa(supported_isas().back());
    }
  }
  set_isa(supported_isas().back());
}

}  // namespace
}  // namespace heed::test
