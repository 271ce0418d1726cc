// What tests of heed attend share: the numbers of a step by name.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "heed/explain/attend.h"

namespace heed::test {

using Numbers = std::vector<double>;

// The numbers of a step, row-major; none where it is absent.
inline Numbers numbers_of(const explain::Walkthrough& walkthrough, const std::string& step) {
  for (const Recording& each : walkthrough.steps) {
    if (each.name == step) return {each.values.values().begin(), each.values.values().end()};
  }
  return {};
}

// Equal when rounded to 4 places, as worked examples are printed.
inline void expect_rounded(const Numbers& got, const Numbers& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 0.50001e-4) << what << " [" << i << "]";
}

}  // namespace heed::test
