#include "heed/io/npy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/io/expect_file_error.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace heed::test {
namespace {

std::string little_endian(uint64_t value, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

// An npy file of version 1.0 with this dictionary and these bytes of numbers.
std::string npy(const std::string& dictionary, const std::string& data = "") {
  return std::string("\x93NUMPY\x01\x00", 8) + little_endian(dictionary.size(), 2) + dictionary + data;
}

// The same by its parts, as numpy words them.
std::string npy(const std::string& descr, const std::string& shape, const std::string& data) {
  return npy("{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n", data);
}

template <class T>
std::string bytes_of_values(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

class Npy : public testing::Test {
 protected:
  io::Array read(const std::string& bytes) { return io::read_npy(directory_.file("x.npy", bytes)); }

  void refused(const std::string& bytes, const std::vector<std::string>& parts, const std::string& hint = "") {
    const std::string path = directory_.file("x.npy", bytes);
    expect_file_error([&] { io::read_npy(path); }, path, parts, hint);
  }

  TemporaryDirectory directory_;
};

TEST_F(Npy, HeadersMayDifferInOrderSpaceAndQuotes) {
  const std::string one = bytes_of_values<float>({1.0F, 2.0F});
  for (const std::string header : {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n",
                                   "{'shape':(2,),'fortran_order':True,'descr':'f4'}",
                                   "  {\"descr\" : \"=f4\" ,\n\t\"shape\" : ( 2 , ), \"fortran_order\" : False }  \n",
                                   "{'descr': '|f4', 'fortran_order': False, 'shape': (2L,), }"}) {
    SCOPED_TRACE(header);
    const io::Array array = read(npy(header, one));
    EXPECT_EQ(array.values.shape(), std::vector<int64_t>{2});
    EXPECT_EQ(array.values.values()[1], 2.0F);
  }
}

TEST_F(Npy, LargeArraysAreReadPieceByPieceInBothOrders) {
  constexpr int64_t kRows = 301;
  constexpr int64_t kColumns = 509;  // more than one piece, and none of them whole
  std::vector<float> numbers(kRows * kColumns);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  for (const bool fortran : {false, true}) {
    const std::string order = fortran ? "True" : "False";
    const std::string header = "{'descr': '<f4', 'fortran_order': " + order + ", 'shape': (301, 509), }\n";
    const io::Array array = read(npy(header, bytes_of_values(numbers)));
    const auto view = array.values.view<2>();
    for (int64_t i = 0; i < kRows; ++i) {
      for (int64_t j = 0; j < kColumns; ++j) {
        ASSERT_EQ(view(i, j), static_cast<float>(fortran ? j * kRows + i : i * kColumns + j)) << i << " " << j;
      }
    }
  }
}

TEST_F(Npy, ZerosKeepTheirSign) {
  EXPECT_TRUE(std::signbit(read(npy("<f2", "(1,)", little_endian(0x8000, 2))).values.values()[0]));
  EXPECT_TRUE(std::signbit(read(npy("<f4", "(1,)", bytes_of_values<float>({-0.0F}))).values.values()[0]));
  EXPECT_TRUE(std::signbit(read(npy("<f8", "(1,)", bytes_of_values<double>({-0.0}))).values.values()[0]));
}

TEST_F(Npy, WholeNumbersThatFloatCannotHoldAreRefused) {
  refused(npy("<i4", "(2, 2)", bytes_of_values<int32_t>({1, 2, 3, (1 << 24) + 1})),
          {"16777217", "cannot hold exactly", "element [1, 1]"});
  refused(npy("<u8", "(1,)", bytes_of_values<uint64_t>({std::numeric_limits<uint64_t>::max()})),
          {"18446744073709551615"});
  refused(npy("<i8", "()", bytes_of_values<int64_t>({std::numeric_limits<int64_t>::max()})), {"element []"});
  EXPECT_EQ(
      read(npy("<i8", "(1,)", bytes_of_values<int64_t>({std::numeric_limits<int64_t>::min()}))).values.values()[0],
      -0x1p63F);
}

TEST_F(Npy, DoublesBeyondFloatAreRefusedAndTheLargestAreNot) {
  refused(npy("<f8", "(3,)", bytes_of_values<double>({0, 1, -1e39})), {"-1e+39", "beyond the range", "element [2]"});
  refused(npy("<f8", "(1,)", bytes_of_values<double>({0x1.ffffffp127})), {"beyond the range"});
  const double below = std::nextafter(0x1.ffffffp127, 0);
  EXPECT_EQ(read(npy("<f8", "(1,)", bytes_of_values<double>({below}))).values.values()[0], 0x1.fffffep127F);
}

TEST_F(Npy, TheElementOfAFortranFileIsNamedByItsIndices) {
  refused(npy("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3)}",
              bytes_of_values<int32_t>({0, 0, 0, 0, 0, 99999999})),
          {"element [1, 2]"});
  refused(npy("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3)}",
              bytes_of_values<int32_t>({0, 99999999, 0, 0, 0, 0})),
          {"element [1, 0]"});
}

TEST_F(Npy, BoolsAreZeroOrOne) {
  refused(npy("|b1", "(3,)", std::string("\x00\x01\x02", 3)), {"bool byte 2", "element [2]"});
}

TEST_F(Npy, FilesOfAnotherKindAreNamed) {
  refused("", {"not an npy file", "empty"});
  refused("PK\x03\x04", {"zip archive"}, "unzip");
  refused("PK\x03\x04" + std::string(26, '\0') + "a.npy", {"npz", "zip archive"}, "numpy.load('x.npz')['NAME']");
  refused("PK\x03\x04" + std::string(26, '\0') + "x/data.pkl", {"PyTorch"}, "torch.load('x.pt')");
  refused("1.0 2.0\n3.0 4.0\n", {"text"}, "loadtxt");
  refused("\x80\x04\x95", {"pickle"});
  refused(std::string("\x89HDF\r\n\x1a\n"), {"HDF5"});
  refused("\x1f\x8b\x08", {"gzip"}, "gunzip");
  refused(little_endian(2, 8) + "{}", {"safetensors"}, "x.safetensors:NAME");
  refused("\x93NUMP", {"not an npy file", "byte 0"});
  refused(std::string("\xff\x00\xff", 3), {"none that are known"});
}

TEST_F(Npy, EveryCutIsRefused) {
  const std::string whole = npy("<f4", "(2, 3)", bytes_of_values<float>({1, 2, 3, 4, 5, 6}));
  for (size_t size = 0; size < whole.size(); ++size) {
    SCOPED_TRACE(size);
    refused(whole.substr(0, size), {});
  }
  refused(whole.substr(0, whole.size() - 1), {"needs 24 bytes", "has 23"}, "cut off");
  EXPECT_EQ(read(whole).values.values()[5], 6.0F);
}

TEST_F(Npy, TrailingBytesAreRefused) {
  refused(npy("<f4", "(1,)", "12345"), {"needs 4 bytes", "has 5"}, "one array a file");
}

TEST_F(Npy, OtherNumbersAreRefusedWithTheirReason) {
  refused(npy(">f4", "(1,)", "1234"), {"big-endian", "'>f4'"}, "astype('<f4')");
  refused(npy("|O", "(1,)", "12345678"), {"Python objects"});
  refused(npy("<U3", "(1,)", "123456789012"), {"strings"}, "astype");
  refused(npy("|S3", "(1,)", "123"), {"strings"});
  refused(npy("<c8", "(1,)", "12345678"), {"complex"});
  refused(npy("<M8[ns]", "(1,)", "12345678"), {"times"});
  refused(npy("<V2", "(1,)", "12"), {"raw bytes", "bf16"});
  refused(npy("<f16", "()", std::string(16, '\0')), {"not one of f2 f4 f8"});
  refused(npy("", "()", ""), {"not one of"});
  refused(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "1234"), {"structured", "byte 20"});
  EXPECT_EQ(read(npy(">i1", "(1,)", "\x05")).values.values()[0], 5.0F) << "one byte has no order";
}

TEST_F(Npy, ShapesThatOverflowAreRefusedBeforeAnythingIsAllocated) {
  refused(npy("<f4", "(9223372036854775808,)", ""), {"overflows 64 bits"});
  refused(npy("<f4", "(4611686018427387904, 4)", ""), {"overflows 64 bits"}, "damaged");
  refused(npy("<f4", "(0, 4611686018427387904, 4)", ""), {"overflows 64 bits"});
  refused(npy("<f4", "(4294967296, 4294967296, 0)", ""), {"overflows 64 bits"});
  refused(npy("<f4", "(1000000000000,)", "1234"), {"needs 4000000000000 bytes", "has 4"});
  std::string many = "(";
  for (int i = 0; i < 65; ++i) many += "1,";
  refused(npy("<f4", many + ")", "1234"), {"more than 64 dimensions"});
}

TEST_F(Npy, EmptyArraysOfGreatSizesAreRefused) {
  refused(npy("<f4", "(1000000000000, 0, 4)", ""), {"[1000000000000, 0, 4]", "no elements"}, "size of 0");
  refused(npy("<f4", "(0, 1000000000000, 4)", ""), {"[0, 1000000000000, 4]", "make 4000000000000;"});
  refused(npy("<f4", "(0, 65537)", ""), {"at most 65536"});
  EXPECT_EQ(read(npy("<f4", "(0, 1024, 0, 64)", "")).values.shape(), (std::vector<int64_t>{0, 1024, 0, 64}));
}

TEST_F(Npy, HeadersThatLieAreRefused) {
  const std::string rest = ", 'fortran_order': False, 'shape': (1,)}";
  refused(npy("{'descr': '<f4', 'shape': (1,)}", "1234"), {"lacks the key 'fortran_order'"});
  refused(npy("{'descr': '<f4', 'descr': '<f4'" + rest, "1234"), {"'descr' twice"});
  refused(npy("{'descr': '<f4', 'x': 1" + rest, "1234"), {"key 'x'"});
  refused(npy("{'descr': '<f4'" + rest + "}", "1234"), {"after its end"});
  refused(npy("{'descr': '<f4" + rest, "1234"), {});
  refused(npy("{'descr': 5" + rest, "1234"), {"'5' where a string"});
  refused(npy("{'descr': '<f\\x34'" + rest, "1234"), {"escaped"});
  refused(npy("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", "1234"), {"neither True nor False"});
  for (const std::string shape :
       {"1", "[1]", "(1)", "(1.0,)", "(-1,)", "(1 1,)", "(,)", "(0x1,)", "(True,)", "(1,", "("}) {
    SCOPED_TRACE(shape);
    refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + "}", "1234"), {});
  }
  refused(npy("", "1234"), {"its end where '{'"});
  refused(npy(std::string("{\0}", 3), "1234"), {"zero byte", "byte 11"});
  refused(std::string("\x93NUMPY\x01\x00\xff\xff{}", 12), {"claims 65535 bytes", "only 2 more"});
  refused(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff{}", 14), {"claims 4294967295 bytes"});
  refused(std::string("\x93NUMPY\x02\x00\x01\x00\x02\x00", 12) + std::string(0x20001, ' '), {"at most 65536"});
  refused(std::string("\x93NUMPY\x04\x00\x00\x00", 10), {"version 4.0"});
  refused(std::string("\x93NUMPY\x01\x01\x00\x00", 10), {"version 1.1"});
}

TEST_F(Npy, TextsOfTheFileAreShownWithoutControlCharacters) {
  refused(npy("{'\x1b[2J\n\xc2\x9b': 1}"), {"\\x1b[2J\\x0a\\xc2\\x9b"});
}

TEST_F(Npy, WrittenTensorsReadBackWithTheirBits) {
  const std::string path = directory_.file("y.npy");
  for (const auto& shape : std::vector<std::vector<int64_t>>{{}, {0}, {3}, {2, 0, 3}, {2, 3}, {1, 2, 3, 4}}) {
    SCOPED_TRACE(to_text(shape));
    Tensor values(shape);
    float next = -0.75F;
    for (float& value : values.values()) value = next *= -3.1F;
    if (values.count() > 2) values.values()[1] = std::numeric_limits<float>::quiet_NaN();
    io::write_npy(path, values);
    const std::string bytes = bytes_of(path);
    EXPECT_EQ((bytes.size() - static_cast<size_t>(values.count()) * sizeof(float)) % 64, 0U) << "numbers are aligned";
    const io::Array array = io::read_npy(path);
    EXPECT_EQ(array.values.shape(), shape);
    EXPECT_EQ(array.dtype, "f32");
    EXPECT_EQ(array.nonfinite, values.count() > 2 ? 1 : 0);
    EXPECT_EQ(std::memcmp(array.values.values().data(), values.values().data(), values.values().size_bytes()), 0);
  }
}

TEST_F(Npy, TensorsWithoutAShapeAreNotWritten) {
  expect_error("write_npy", [&] { io::write_npy(directory_.file("y.npy"), Tensor()); }, {"never given a shape"});
  expect_error("write_npy", [&] { io::write_npy(directory_.file("y.npy"), Tensor(std::vector<int64_t>(65, 1))); },
               {"65 dimensions"});
  EXPECT_TRUE(directory_.names().empty());
}

}  // namespace
}  // namespace heed::test
