#include "heed/core/version.h"

#include <gtest/gtest.h>

#include <string>

namespace heed {
namespace {

TEST(Version, IsItsThreePartsJoinedByPoints) {
  EXPECT_EQ(kVersion,
            std::to_string(kVersionMajor) + "." + std::to_string(kVersionMinor) + "." + std::to_string(kVersionPatch));
}

}  // namespace
}  // namespace heed
