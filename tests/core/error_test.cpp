#include "heed/core/error.h"

#include <gtest/gtest.h>

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

TEST(Error, IsAnInvalidArgument) { EXPECT_THROW(fail("f", "text"), std::invalid_argument); }

}  // namespace
}  // namespace heed
