#include "heed/core/suggest.h"

#include <gtest/gtest.h>

namespace heed::test {
namespace {

TEST(Suggest, TheNearestNameIsProposed) {
  EXPECT_EQ(did_you_mean("wieghts", {"heads", "weights", "weight_in"}), "did you mean 'weights'?");
  EXPECT_EQ(did_you_mean("q", {"q"}), "did you mean 'q'?");
}

TEST(Suggest, NothingIsProposedWhenNoNameIsNear) {
  EXPECT_EQ(did_you_mean("scores", {"in_proj_weight", "bias"}), "");
  EXPECT_EQ(did_you_mean("scores", {}), "");
  EXPECT_EQ(did_you_mean("z", {"a", "bc"}), "") << "nothing in common";
  EXPECT_EQ(did_you_mean("q", {std::string(100000, 'q')}), "");
}

}  // namespace
}  // namespace heed::test
