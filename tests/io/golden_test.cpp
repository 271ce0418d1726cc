// Files that numpy and safetensors wrote read as the values they were made of.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "heed/io/array.h"
#include "heed/io/safetensors.h"
#include "tests/support/golden.h"

namespace heed::test {
namespace {

bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

TEST(IoGolden, EveryFileReadsAsItWasWritten) {
  const auto goldens = load_goldens("io/expected.txt");
  ASSERT_EQ(goldens.size(), 34U);
  for (const GoldenCase& golden : goldens) {
    SCOPED_TRACE(golden.name);
    const io::Array array = io::read_array(golden_path("io/" + golden.name));
    const Tensor& expected = golden.tensors.at("values");
    EXPECT_EQ(array.dtype, golden.texts.at("dtype"));
    EXPECT_EQ(std::to_string(array.nonfinite), golden.texts.at("nonfinite"));
    ASSERT_EQ(array.values.shape(), expected.shape());
    ASSERT_EQ(array.values.count(), expected.count());
    for (size_t i = 0; i < expected.values().size(); ++i) {
      EXPECT_PRED2(same, array.values.values()[i], expected.values()[i]) << "element " << i;
    }
  }
}

TEST(IoGolden, SafetensorsTellNamesShapesAndMetadata) {
  const io::SafetensorsFile file(golden_path("io/weights.safetensors"));
  EXPECT_EQ(file.names().size(), 14U);
  EXPECT_TRUE(file.has("self_attn.in_proj_weight"));
  EXPECT_FALSE(file.has("self_attn.in_proj_bias"));
  EXPECT_EQ(file.shape("self_attn.in_proj_weight"), (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(file.dtype("bf16"), "bf16");
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"made by", "tools/goldens"}, {"π", "3"}}));
}

}  // namespace
}  // namespace heed::test
