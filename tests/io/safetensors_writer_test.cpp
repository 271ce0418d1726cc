// Writing safetensors: formats, layout, metadata, refusals.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "heed/io/safetensors.h"
#include "tests/io/expect_file_error.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace heed::test {
namespace {

using Floats = std::span<const float>;
using Integers = std::span<const int64_t>;
using Entries = std::vector<io::SafetensorsEntry>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class SafetensorsWriter : public testing::Test {
 protected:
  void refused(const Entries& tensors, const std::vector<std::string>& parts,
               const io::SafetensorsOptions& options = {}) {
    expect_error(
        "write_safetensors", [&] { io::write_safetensors(path_, tensors, options); }, parts);
    EXPECT_TRUE(directory_.names().empty()) << "nothing is written";
  }

  TemporaryDirectory directory_;
  std::string path_ = directory_.file("y.safetensors");
};

TEST_F(SafetensorsWriter, WrittenTensorsReadBackWithTheirBits) {
  Tensor a({2, 3});
  Tensor b(std::vector<int64_t>{});
  const Tensor c({4, 0});
  float next = 0.3F;
  for (float& value : a.values()) value = next *= -7.7F;
  b.values()[0] = std::numeric_limits<float>::infinity();
  const std::map<std::string, std::string> metadata = {{"format", "pt"}, {"quote\"\n", "größe"}};
  io::write_safetensors(path_, {{"z.weight", &a}, {"a \"b\"", &b}, {"none", &c}}, metadata);
  const std::string bytes = bytes_of(path_);
  EXPECT_EQ((bytes.size() - 7 * sizeof(float)) % 64, 0U) << "numbers are aligned";
  const io::SafetensorsFile file(path_);
  EXPECT_EQ(file.names(), (std::vector<std::string>{"z.weight", "a \"b\"", "none"}));
  EXPECT_EQ(file.metadata(), metadata);
  const io::Array read = file.read("z.weight");
  EXPECT_EQ(read.values.shape(), a.shape());
  EXPECT_EQ(std::memcmp(read.values.values().data(), a.values().data(), a.values().size_bytes()), 0);
  EXPECT_EQ(file.read("a \"b\"").nonfinite, 1);
  EXPECT_EQ(file.shape("none"), c.shape());
  io::write_safetensors(path_, std::vector<io::SafetensorsEntry>{});
  EXPECT_TRUE(io::SafetensorsFile(path_).names().empty());
}

TEST_F(SafetensorsWriter, WhatTheFormatCannotHoldIsNotWritten) {
  const Tensor x({1});
  const Tensor empty;
  const auto refuse = [&](const std::vector<std::pair<std::string, const Tensor*>>& tensors, const std::string& part) {
    expect_error("write_safetensors", [&] { io::write_safetensors(path_, tensors); }, {part});
  };
  refuse({{"x", &x}, {"x", &x}}, "'x' is taken");
  refuse({{"__metadata__", &x}}, "'__metadata__' is taken");
  refuse({{"x", nullptr}}, "no tensor was given for 'x'");
  refuse({{"x", &empty}}, "never given a shape");
  refuse({{"\xff", &x}}, "not UTF-8");
  EXPECT_TRUE(directory_.names().empty());
}

TEST_F(SafetensorsWriter, EveryFormatReadsBackRounded) {
  // More than one piece, and the last one not whole.
  std::vector<float> values(40'001);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i)) * 100.0F;
  values.back() = -kInfinity;
  values[7] = std::numeric_limits<float>::quiet_NaN();
  struct Case {
    io::FloatFormat format;
    const char* dtype;
    size_t bytes;
    float error;  // half a unit in the last place
  };
  for (const Case& each :
       {Case{io::FloatFormat::f32, "f32", 4, 0.0F}, Case{io::FloatFormat::f16, "f16", 2, 0x1p-11F},
        Case{io::FloatFormat::bf16, "bf16", 2, 0x1p-8F}, Case{io::FloatFormat::f64, "f64", 8, 0.0F}}) {
    SCOPED_TRACE(each.dtype);
    io::write_safetensors(path_, {{"x", {40'001}, Floats(values)}}, {.format = each.format});
    EXPECT_EQ(bytes_of(path_).size() % 64, values.size() * each.bytes % 64);
    const io::Array read = io::SafetensorsFile(path_).read("x");
    EXPECT_EQ(read.dtype, each.dtype);
    EXPECT_EQ(read.nonfinite, 2);
    for (size_t i = 8; i + 1 < values.size(); ++i) {
      ASSERT_LE(std::abs(read.values.values()[i] - values[i]), each.error * std::abs(values[i])) << i;
    }
    EXPECT_TRUE(std::isnan(read.values.values()[7]));
    EXPECT_EQ(read.values.values().back(), -kInfinity);
  }
}

TEST_F(SafetensorsWriter, IntegersStayI64InFilesOfEveryFormat) {
  const std::vector<int64_t> ids = {0, -1, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  for (const auto format : {io::FloatFormat::f32, io::FloatFormat::f16, io::FloatFormat::bf16, io::FloatFormat::f64}) {
    io::write_safetensors(path_, {{"ids", {2, 2}, Integers(ids)}, {"none", {0}, Integers()}}, {.format = format});
    const io::SafetensorsFile file(path_);
    EXPECT_EQ(file.dtype("ids"), "i64");
    const TensorOf<int64_t> read = file.read_integers("ids");
    EXPECT_EQ(read.shape(), (std::vector<int64_t>{2, 2}));
    EXPECT_EQ(std::vector<int64_t>(read.values().begin(), read.values().end()), ids);
    EXPECT_EQ(file.read_integers("none").count(), 0);
  }
}

TEST_F(SafetensorsWriter, TheHeaderKeepsTheOrderAndTheDataHasTheWidestFirst) {
  const std::vector<float> half = {1.0F, 2.0F, 3.0F};
  const std::vector<int64_t> step = {5};
  io::write_safetensors(path_, {{"w", {3}, Floats(half)}, {"none", {0}, Floats()}, {"step", {}, Integers(step)}},
                        {.format = io::FloatFormat::f16});
  const io::SafetensorsFile file(path_);
  EXPECT_EQ(file.names(), (std::vector<std::string>{"w", "none", "step"}));
  EXPECT_EQ(file.read("w").values.values()[2], 3.0F);
  EXPECT_EQ(file.read_integers("step").values()[0], 5);
  const std::string bytes = bytes_of(path_);
  EXPECT_EQ(bytes.size() % 64, 14U);
  int64_t first = 0;
  std::memcpy(&first, &bytes[bytes.size() - 14], sizeof(first));
  EXPECT_EQ(first, 5) << "the integer is aligned";
}

TEST_F(SafetensorsWriter, MetadataReadBackAndPyTorchsFormatIsWrittenOnlyOnRequest) {
  using Metadata = std::map<std::string, std::string>;
  const auto written = [&](const io::SafetensorsOptions& options) {
    io::write_safetensors(path_, Entries{}, options);
    return io::SafetensorsFile(path_).metadata();
  };
  const Metadata some = {{"step", "12"}, {"quote\"\n", "größe"}, {"", ""}};
  EXPECT_EQ(written({}), Metadata{});
  EXPECT_EQ(written({.metadata = some}), some);
  EXPECT_EQ(written({.pytorch = true}), (Metadata{{"format", "pt"}}));
  Metadata both = some;
  both["format"] = "pt";
  EXPECT_EQ(written({.metadata = some, .pytorch = true}), both);
  EXPECT_EQ(written({.metadata = both, .pytorch = true}), both);
  EXPECT_EQ(written({.metadata = {{"format", "tf"}}}), (Metadata{{"format", "tf"}}));
}

TEST_F(SafetensorsWriter, MetadataThatContradictOrAreNotTextAreRefused) {
  refused({}, {"'format' is 'tf'", "pytorch"}, {.metadata = {{"format", "tf"}}, .pytorch = true});
  refused({}, {"not UTF-8"}, {.metadata = {{"\xff", "x"}}});
  refused({}, {"not UTF-8"}, {.metadata = {{"x", "\xc3"}}});
}

TEST_F(SafetensorsWriter, ValuesBeyondTheRangeAreRefusedWithTensorAndElement) {
  const std::vector<float> large = {kInfinity, 65519.0F, -65520.0F, 0.0F};
  const Entries tensors = {{"layer.weight", {2, 2}, Floats(large)}};
  refused(tensors, {"'layer.weight', element [1, 0]", "-65520 is beyond the range of f16", "write f32"},
          {.format = io::FloatFormat::f16});
  const std::vector<float> largest = {std::numeric_limits<float>::max()};
  refused({{"x", {}, Floats(largest)}}, {"'x', element []", "beyond the range of bf16"},
          {.format = io::FloatFormat::bf16});
  io::write_safetensors(path_, tensors, {.format = io::FloatFormat::bf16});
  EXPECT_EQ(io::SafetensorsFile(path_).read("layer.weight").nonfinite, 1);
}

TEST_F(SafetensorsWriter, ARefusalLeavesTheOldFile) {
  const std::vector<float> large = {1e6F};
  directory_.file("y.safetensors", "old");
  EXPECT_THROW(io::write_safetensors(path_, {{"x", {1}, Floats(large)}}, {.format = io::FloatFormat::f16}), Error);
  EXPECT_EQ(bytes_of(path_), "old");
}

TEST_F(SafetensorsWriter, EntriesThatTheFormatCannotHoldAreRefused) {
  const std::vector<float> x = {1.0F, 2.0F};
  const std::vector<int64_t> n = {1};
  refused({{"x", {3}, Floats(x)}}, {"'x' of shape [3] has 3 elements, but 2 values"});
  refused({{"n", {}, Integers()}}, {"'n' of shape [] has 1 elements, but 0 values"});
  refused({{"x", {-2, -1}, Floats(x)}}, {"'x' has a negative size"});
  refused({{"x", {0, int64_t{1} << 50}, Floats()}}, {"'x' has shape", "too many elements"});
  refused({{"x", std::vector<int64_t>(65, 1), Floats(x).first(1)}}, {"'x' has 65 dimensions", "at most 64"});
  refused({{"x", {2}, Floats(static_cast<const float*>(nullptr), 2)}}, {"'x' are a null span"});
  refused({{"x", {2}, Floats(x)}, {"x", {1}, Integers(n)}}, {"'x' is taken"});
  refused({{"x", {2}, Floats(x)}}, {"not one of FloatFormat"}, {.format = static_cast<io::FloatFormat>(9)});
}

}  // namespace
}  // namespace heed::test
