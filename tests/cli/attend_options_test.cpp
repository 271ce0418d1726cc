// Score options and gradients of `heed attend`.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/cli/attend_files.h"

namespace heed::cli {
namespace {

using Words = std::vector<std::string>;

struct OptionCase {
  std::string name;
  Words flags;
  Words steps;  // those that are there because of it
};

std::vector<OptionCase> option_cases(const Files& files) {
  Tensor bias = drawn({4, 4}, 7);
  bias.values()[1] = -std::numeric_limits<float>::infinity();
  const std::string bias_file = files.npy("bias.npy", bias), sink = files.npy("sink.npy", drawn({2}, 8));
  return {{"scale", {"--scale", "0.25"}, {}},
          {"softcap", {"--softcap", "1.5"}, {"capped"}},
          {"alibi", {"--alibi", "--causal"}, {"biased", "masked"}},
          {"bias", {"--bias", bias_file}, {"biased", "masked"}},
          {"sink", {"--sink", sink}, {}},
          {"sigmoid", {"--normalizer", "sigmoid"}, {}},
          {"all",
           {"--softcap", "2", "--alibi", "--bias", bias_file, "--sink", sink, "--causal"},
           {"capped", "biased", "masked"}}};
}

TEST(AttendOptions, EachIsAStepAndAgreesWithDouble) {
  const Files files;
  const Words qkv = files.qkv({2, 4, 8}, {2, 4, 8}, {2, 4, 6});
  for (const OptionCase& each : option_cases(files)) {
    SCOPED_TRACE(each.name);
    const Json document = json_of(qkv + each.flags);
    EXPECT_LT(document["checks"]["ref_max_abs_diff"].get<double>(), 1e-6);
    for (const char* name : {"capped", "biased", "masked"}) {
      const bool expected = std::find(each.steps.begin(), each.steps.end(), name) != each.steps.end();
      EXPECT_EQ(!step_of(document, name).is_null(), expected) << name;
    }
  }
}

TEST(AttendOptions, GradientsAgreeWithFiniteDifferences) {
  const Files files;
  const Words qkv = files.qkv({2, 4, 8}, {2, 4, 8}, {2, 4, 6});
  std::vector<OptionCase> cases = option_cases(files);
  cases.push_back({"plain", {}, {}});
  cases.push_back({"causal", {"--causal"}, {}});
  cases.push_back({"given", {"--d-out", files.npy("d.npy", drawn({2, 4, 6}, 9))}, {}});
  for (const OptionCase& each : cases) {
    SCOPED_TRACE(each.name);
    const Json document = json_of(qkv + each.flags + Words{"--grad"});
    ASSERT_EQ(document["gradients"].size(), 4U);
    const Words names{"q.grad", "k.grad", "v.grad", "weights.grad"};
    for (size_t i = 0; i < 4; ++i) {
      const Json& gradient = document["gradients"][i];
      EXPECT_EQ(gradient["name"], names[i]);
      EXPECT_LT(gradient["finite_difference_error"].get<double>(), 2e-6) << names[i];
      EXPECT_EQ(gradient["checked"], static_cast<int64_t>(gradient["data"].flatten().size())) << names[i];
    }
  }
}

TEST(AttendOptions, GradientsOfTheWeightsOfALayer) {
  for (const char* example : {"self", "masked", "cross", "sigmoid", "two-heads", "widths"}) {
    SCOPED_TRACE(example);
    const Json document = json_of({"attend", "--example", example, "--grad"});
    ASSERT_EQ(document["gradients"].size(), 8U);
    for (const Json& gradient : document["gradients"]) {
      EXPECT_LT(gradient["finite_difference_error"].get<double>(), 2e-6) << gradient["name"];
      EXPECT_GT(gradient["checked"], 0) << gradient["name"];
    }
    EXPECT_EQ(document["gradients"][4]["name"], "W_Q.grad");
    EXPECT_EQ(document["gradients"][4]["shape"], document["parameters"][0]["shape"]);
  }
}

TEST(AttendOptions, LargeGradientsAreCheckedOnASampleAndSaySo) {
  const std::string all = heed({"attend", "--example", "eight-heads", "--grad"}).out;
  EXPECT_NE(all.find(" of 1048576 entries"), std::string::npos);
}

TEST(AttendOptions, AlibiFallsWithDistance) {
  const Files files;
  const Words qkv = files.qkv({3, 4}, {3, 4}, {3, 4});
  const Json document = json_of(qkv + Words{"--alibi"});
  const std::vector<float> scaled = numbers(document, "scaled"), biased = numbers(document, "biased");
  const float slope = 1.0F / 256.0F;  // 2^-8, of one head
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      const auto at = static_cast<size_t>(3 * i + j);
      EXPECT_NEAR(biased[at], scaled[at] - slope * static_cast<float>(std::abs(i - j)), 1e-6F);
    }
  }
}

}  // namespace
}  // namespace heed::cli
