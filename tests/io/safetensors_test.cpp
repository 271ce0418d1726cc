#include "heed/io/safetensors.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/io/expect_file_error.h"
#include "tests/io/safetensors_bytes.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace heed::test {
namespace {

class Safetensors : public testing::Test {
 protected:
  io::SafetensorsFile open(const std::string& bytes) {
    return io::SafetensorsFile(directory_.file("w.safetensors", bytes));
  }

  void refused(const std::string& bytes, const std::vector<std::string>& parts, const std::string& hint = "") {
    const std::string path = directory_.file("w.safetensors", bytes);
    expect_file_error([&] { io::SafetensorsFile file(path); }, path, parts, hint);
  }

  TemporaryDirectory directory_;
};

const std::string kEight(8, '\0');

TEST_F(Safetensors, FilesMayBeEmptyPaddedAndInAnyOrder) {
  EXPECT_TRUE(open(file_of("{}")).names().empty());
  EXPECT_TRUE(open(file_of("{}      \n")).names().empty());
  const auto file =
      open(file_of("{" + entry("b", "F32", "[1]", "[4,8]") + "," + entry("a", "F32", "[1]", "[0,4]") + "}",
                   std::string("\0\0\x80\x3f\0\0\0\x40", 8)));
  EXPECT_EQ(file.names(), (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(file.read("a").values.values()[0], 1.0F);
  EXPECT_EQ(file.read("b").values.values()[0], 2.0F);
}

TEST_F(Safetensors, FormatsWithoutAWayToFloatAreListedButNotRead) {
  const auto file = open(file_of("{" + entry("x", "F8_E4M3", "[8]", "[0,8]") + "}", kEight));
  EXPECT_EQ(file.dtype("x"), "f8_e4m3");
  expect_file_error([&] { file.read("x"); }, file.path(), {"f8_e4m3", "tensor 'x'"});
}

TEST_F(Safetensors, EmptyArraysOfGreatSizesAreRefused) {
  const auto file = open(file_of("{" + entry("x", "F32", "[1000000000000,0,4]", "[0,0]") + "," +
                                 entry("y", "F32", "[0,65536]", "[0,0]") + "}"));
  expect_file_error([&] { file.read("x"); }, file.path(), {"no elements", "tensor 'x'"}, "size of 0");
  EXPECT_EQ(file.read("y").values.shape(), (std::vector<int64_t>{0, 65536}));
}

TEST_F(Safetensors, UnknownNamesProposeKnownOnes) {
  const auto file = open(file_of("{" + entry("in_proj_weight", "F32", "[0]", "[0,0]") + "}"));
  for (const auto& call :
       std::vector<std::function<void()>>{[&] { file.read("in_proj_wieght"); }, [&] { file.shape("in_proj_wieght"); },
                                          [&] { file.dtype("in_proj_wieght"); }}) {
    expect_file_error(call, file.path(), {"no tensor is named 'in_proj_wieght'"}, "did you mean 'in_proj_weight'?");
  }
  expect_file_error([&] { file.read("q"); }, file.path(), {}, "it has 'in_proj_weight'");
}

TEST_F(Safetensors, ReferencesNameAFileAndATensor) {
  const std::string bytes = file_of("{" + entry("a:b", "F32", "[1]", "[0,4]") + "}", std::string("\0\0\x80\x3f", 4));
  const std::string path = directory_.file("w.safetensors", bytes);
  EXPECT_EQ(io::read_array(path + ":a:b").values.values()[0], 1.0F);
  expect_file_error([&] { io::read_array(path); }, path, {"none was given"}, path + ":NAME; its first is 'a:b'");
  expect_file_error([&] { io::read_array(path + ":"); }, path, {"named ''"});
  const std::string missing = directory_.file("v.safetensors");
  expect_file_error([&] { io::read_array(missing + ":x"); }, missing, {"no such file"},
                    "did you mean 'w.safetensors'?");
}

TEST_F(Safetensors, ValuesThatDoNotFitNameTensorAndElement) {
  const auto file = open(file_of("{" + entry("w", "BOOL", "[2,4]", "[0,8]") + "}", std::string("\0\0\0\0\0\0\7\0", 8)));
  expect_file_error([&] { file.read("w"); }, file.path(), {"bool byte 7", "tensor 'w', element [1, 2]"});
}

TEST_F(Safetensors, FilesOfAnotherKindAreNamed) {
  refused("", {"not a safetensors file", "empty"});
  refused("PK\x03\x04 and more of it", {"zip archive"});
  refused("\x93NUMPY\x01 and more of it", {"npy"}, "without ':NAME'");
  refused("just some text here", {"text"});
  refused(with_length(2, "[]"), {"not a safetensors file"});
  refused(with_length(0, ""), {"not JSON"});
}

TEST_F(Safetensors, EveryCutIsRefused) {
  const std::string whole = file_of("{" + entry("x", "F32", "[2]", "[0,8]") + "}", kEight);
  for (size_t size = 0; size < whole.size(); ++size) {
    SCOPED_TRACE(size);
    refused(whole.substr(0, size), {});
  }
  refused(whole.substr(0, 20), {"the header claims"}, "cut off");
  EXPECT_EQ(open(whole).names().size(), 1U);
}

TEST_F(Safetensors, LengthsThatLieAreRefused) {
  refused(with_length(~uint64_t{0}, "{}"), {"claims 18446744073709551615 bytes", "only 2 more"});
  refused(with_length(uint64_t{1} << 63, "{}"), {"claims 9223372036854775808 bytes"});
  refused(with_length(1, "{}"), {"not JSON"});
}

TEST_F(Safetensors, HeadersAboveTheLimitAreRefusedWithoutReadingThem) {
  const std::string path = directory_.file("w.safetensors", with_length(100'000'001, "{"));
  std::filesystem::resize_file(path, 100'000'100);  // a hole: takes no space
  expect_file_error([&] { io::SafetensorsFile file(path); }, path, {"at most 100000000"});
}

TEST_F(Safetensors, HeadersThatAreNotTheFormatAreRefused) {
  const std::string good = entry("x", "F32", "[2]", "[0,8]");
  const auto header = [&](const std::string& text, const std::vector<std::string>& parts) {
    SCOPED_TRACE(text);
    refused(file_of(text, kEight), parts);
  };
  header("{" + good + "} x", {"not JSON", "byte "});
  header("{" + good + ",}", {"not JSON"});
  header("{\"\xff\":1}", {"not JSON"});
  header("{" + good + std::string("}\0{", 3), {"zero byte"});
  header("{" + good + "," + good + "}", {"'x' twice"});
  header("{\"x\":" + std::string(100000, '['), {"'x' has an array"});
  header("{\"x\":" + std::string(100000, '{'), {"not JSON"});
  header(R"({"x":5})", {"'x' has a number where an object"});
  header(R"({"x":null})", {"null"});
  header(R"({"x":{"dtype":"F32","shape":[2]}})", {"'data_offsets' is missing", "tensor 'x'"});
  header(R"({"x":{"dtype":"F32","dtype":"F32"}})", {"'dtype' is there twice"});
  header(R"({"x":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})", {"'F31' is unknown"});
  header(R"({"x":{"dtype":["F32"]}})", {"'dtype' has an array"});
  header(R"({"x":{"dtype":5}})", {"'dtype' has a number"});
  header(R"({"x":{"shape":"[2]"}})", {"'shape' has a string"});
  header(R"({"x":{"shape":[[2]]}})", {"'shape' has an array among"});
  header(R"({"x":{"shape":[{}]}})", {"'shape' has an object among"});
  header(R"({"x":{"shape":[-2]}})", {"negative"});
  header(R"({"x":{"shape":[2.0]}})", {"fraction"});
  header(R"({"x":{"shape":[2e0]}})", {"fraction"});
  header(R"({"x":{"shape":[true]}})", {"true or false"});
  header(R"({"x":{"shape":[99999999999999999999]}})", {"overflows 64 bits"});
  header(R"({"x":{"shape":[9223372036854775808]}})", {"overflows 64 bits"});
  header(R"({"x":{"extra":1}})", {"'extra' is not of the format"});
  header(R"({"__metadata__":[]})", {"'__metadata__' has an array"});
  header(R"({"__metadata__":{"a":1}})", {"'a' has a number where a string"});
  header(R"({"__metadata__":{"a":{}}})", {"'a' has an object"});
  header(R"({"__metadata__":{"a":"1","a":"2"}})", {"'a' twice"});
  header(R"({"__metadata__":{},"__metadata__":{}})", {"'__metadata__' twice"});
  std::string ones = "[1";
  for (int i = 0; i < 64; ++i) ones += ",1";
  header("{" + entry("x", "F32", ones + "]", "[0,8]") + "}", {"more than 64"});
}

TEST_F(Safetensors, BytesMustMatchDtypeAndShape) {
  const auto tensor = [&](const std::string& shape, const std::string& offsets, const std::vector<std::string>& parts) {
    SCOPED_TRACE(shape + offsets);
    refused(file_of("{" + entry("x", "F32", shape, offsets) + "}", kEight), parts);
  };
  tensor("[3]", "[0,8]", {"needs 12 bytes", "span 8"});
  tensor("[]", "[0,8]", {"needs 4 bytes"});
  tensor("[2]", "[8,0]", {"ends before it begins"});
  tensor("[2]", "[0]", {"1 numbers, not two"});
  tensor("[2]", "[0,8,8]", {"3 numbers, not two"});
  tensor("[4611686018427387904,4]", "[0,0]", {"overflows"});
  tensor("[0,4611686018427387904,4]", "[0,0]", {"overflows"});
  refused(file_of("{" + entry("x", "F4", "[1]", "[0,0]") + "}"), {"does not end on a byte"});
}

TEST_F(Safetensors, TensorsMustCoverTheDataExactly) {
  const auto two = [&](const std::string& a, const std::string& b, const std::vector<std::string>& parts) {
    SCOPED_TRACE(a + b);
    refused(file_of("{" + entry("a", "F32", "[1]", a) + "," + entry("b", "F32", "[1]", b) + "}", kEight), parts);
  };
  two("[0,4]", "[2,6]", {"within another tensor", "tensor 'b'"});
  two("[0,4]", "[0,4]", {"within another tensor"});
  two("[0,4]", "[5,9]", {"bytes 4 to 5", "tensor 'b'"});
  two("[4,8]", "[8,12]", {"bytes 0 to 4", "tensor 'a'"});
  refused(file_of("{" + entry("a", "F32", "[1]", "[0,4]") + "}", kEight), {"end at byte 4", "has 8"});
  refused(file_of("{" + entry("a", "F32", "[3]", "[0,12]") + "}", kEight), {"ends at byte 12", "has 8"});
  refused(file_of("{}", kEight), {"end at byte 0", "has 8"});
}

TEST_F(Safetensors, IntegersAreReadExactly) {
  const std::string data("\xff\xff\xff\xff\xff\xff\xff\x7f\xff\xff\xff\xff\xff\xff\xff\xff\1\0\7\0\0\x80\x3f", 23);
  const auto file =
      open(file_of("{" + entry("ids", "I64", "[1,1]", "[0,8]") + "," + entry("big", "U64", "[]", "[8,16]") + "," +
                       entry("keep", "BOOL", "[2]", "[16,18]") + "," + entry("byte", "U8", "[1]", "[18,19]") + "," +
                       entry("x", "F32", "[1]", "[19,23]") + "}",
                   data));
  EXPECT_EQ(file.read_integers("ids").values()[0], std::numeric_limits<int64_t>::max()) << "f32 could not hold it";
  EXPECT_EQ(file.read_integers("ids").shape(), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(file.read_integers("keep").values()[0], 1);
  EXPECT_EQ(file.read_integers("byte").values()[0], 7);
  expect_file_error([&] { file.read("ids"); }, file.path(),
                    {"f32 cannot hold exactly", "tensor 'ids', element [0, 0]"});
  expect_file_error([&] { file.read_integers("big"); }, file.path(),
                    {"18446744073709551615 is beyond the range of i64", "tensor 'big', element []"}, "i64");
  expect_file_error([&] { file.read_integers("x"); }, file.path(), {"is f32", "tensor 'x'"}, "read()");
  expect_file_error([&] { file.read_integers("y"); }, file.path(), {"no tensor is named 'y'"});
}

// Every byte of length and header is changed in turn.
TEST_F(Safetensors, FilesWithOneWrongByteAreReadOrRefused) {
  const std::string whole = file_of(
      "{" + entry("x", "F32", "[2]", "[0,8]") + "," + entry("y", "I64", "[1]", "[8,16]") + "}", kEight + kEight);
  const std::string path = directory_.file("w.safetensors");
  int refusals = 0;
  for (size_t at = 0; at < whole.size() - 16; ++at) {
    for (const char wrong : {'\0', '"', '9'}) {
      std::string bytes = whole;
      bytes[at] = wrong;
      directory_.file("w.safetensors", bytes);
      try {
        const io::SafetensorsFile file(path);
        for (const std::string& name : file.names()) file.read(name);
      } catch (const io::FileError& error) {
        ++refusals;
        ASSERT_EQ(error.path(), path);
      }
    }
  }
  EXPECT_GT(refusals, 200);
}

}  // namespace
}  // namespace heed::test
