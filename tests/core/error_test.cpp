#include "heed/core/error.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/support/allocation_counter.h"

namespace heed {
namespace {

TEST(Error, NamesTheFunctionAndStreamsTheParts) {
  try {
    fail("matmul", "got ", 3, " columns, expected ", 4);
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "matmul: got 3 columns, expected 4");
  }
}

TEST(Error, CheckThrowsOnlyWhenTheRuleIsBroken) {
  EXPECT_NO_THROW(check(true, "f", "text"));
  EXPECT_THROW(check(false, "f", "text"), Error);
}

TEST(Error, ShapesAndFunctionsBecomeTextOnlyWhenARuleIsBroken) {
  const std::vector<int64_t> shape{1000, 2000, 3000, 4000};
  int calls = 0;
  const auto part = [&] { return ++calls; };
  const int64_t allocations = test::allocation_count();
  check(true, "f", shape, part);
  EXPECT_EQ(test::allocation_count(), allocations);
  EXPECT_EQ(calls, 0);
  try {
    check(false, "f", shape, " part ", part);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "f: [1000, 2000, 3000, 4000] part 1");
  }
}

TEST(Error, IsAnInvalidArgument) { EXPECT_THROW(fail("f", "text"), std::invalid_argument); }

}  // namespace
}  // namespace heed
