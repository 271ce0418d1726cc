#include "heed/explain/finite_difference.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heed/explain/attend_gradients.h"
#include "heed/explain/examples.h"

namespace heed::explain {
namespace {

Tensor ones(std::vector<int64_t> shape) {
  Tensor made(std::move(shape));
  std::fill(made.values().begin(), made.values().end(), 1.0F);
  return made;
}

TEST(FiniteDifference, SeesAGradientThatIsWrongInOneEntry) {
  const AttendCase given = example("two-heads");
  AttendRequest request;
  request.gradients = true;
  const std::vector<Gradient> right = gradients_of(given, request, {0, 2});
  ASSERT_EQ(right.size(), 8U);
  const Tensor d_out = ones({1, 2, 8});
  FiniteDifference difference(given, d_out);
  for (const Gradient& each : right) {
    EXPECT_LT(difference.checked(each.recording).finite_difference_error.value_or(1.0), 1e-6) << each.recording.name;
    for (size_t entry = 0; entry < each.recording.values.values().size(); entry += 3) {
      Recording wrong = each.recording;
      wrong.values.values()[entry] += 0.001F;
      const Gradient checked = difference.checked(std::move(wrong));
      ASSERT_TRUE(checked.finite_difference_error) << each.recording.name;
      EXPECT_NEAR(*checked.finite_difference_error, 0.001, 1e-5) << each.recording.name;
      EXPECT_EQ(checked.checked, each.recording.values.count());
    }
  }
}

TEST(FiniteDifference, SeesAGradientThatIsNotANumber) {
  const AttendCase given = example("cats");
  AttendRequest request;
  request.gradients = true;
  std::vector<Gradient> gradients = gradients_of(given, request, {0, 2});
  const Tensor d_out = ones({1, 2, 1, 4});
  FiniteDifference difference(given, d_out);
  gradients[0].recording.values.values()[2] = NAN;
  EXPECT_EQ(difference.checked(gradients[0].recording).finite_difference_error, INFINITY);
}

// L = Σ out, out = weights v with rows that sum to 1: each column of v.grad adds up to the number of queries.
TEST(FiniteDifference, GradientsOfValuesAreTheMassThatKeysReceive) {
  AttendRequest request;
  request.gradients = true;
  const std::vector<Gradient> gradients = gradients_of(example("cats"), request, {0, 2});
  const View<const float, 4> d_v = gradients[2].recording.values.view<4>();
  EXPECT_NEAR(d_v(0, 0, 0, 0), 0.2120 + 0.2340, 1e-4);
  EXPECT_NEAR(d_v(0, 0, 0, 3) + d_v(0, 1, 0, 3) + d_v(0, 2, 0, 3), 2.0, 1e-6);
}

}  // namespace
}  // namespace heed::explain
