#include "heed/io/mapped_safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <optional>

#include "tests/io/expect_file_error.h"
#include "tests/io/safetensors_bytes.h"
#include "tests/support/temporary_directory.h"

namespace heed::test {
namespace {

template <class File>
concept GivesViews = requires(File&& file) {
  std::forward<File>(file).template view<2>("x");
};
static_assert(GivesViews<const io::MappedSafetensors&>);
static_assert(!GivesViews<io::MappedSafetensors>, "a view must not outlive its file by mistake");

class MappedSafetensors : public testing::Test {
 protected:
  MappedSafetensors() : numbers_(12) { std::iota(numbers_.begin(), numbers_.end(), 1.0F); }

  io::MappedSafetensors written() const {
    io::write_safetensors(path_, {{"x", {3, 4}, std::span<const float>(numbers_)},
                                  {"none", {2, 0}, std::span<const float>()},
                                  {"step", {}, std::span<const int64_t>(&kStep, 1)}});
    return io::MappedSafetensors(path_);
  }

  static constexpr int64_t kStep = 7;
  std::vector<float> numbers_;
  TemporaryDirectory directory_;
  std::string path_ = directory_.file("w.safetensors");
};

TEST_F(MappedSafetensors, TensorsAreUsedInPlaceAsTheyAreRead) {
  const io::MappedSafetensors file = written();
  EXPECT_TRUE(file.in_place("x"));
  EXPECT_EQ(std::vector<float>(file.values("x").begin(), file.values("x").end()), numbers_);
  const View<const float, 2> x = file.view<2>("x");
  EXPECT_EQ(x.shape(), (Shape<2>{3, 4}));
  EXPECT_EQ(x(2, 1), 10.0F);
  EXPECT_EQ(x.data(), file.values("x").data()) << "no copy";
  EXPECT_EQ(file.view<2>("none").count(), 0);
  EXPECT_EQ(file.file().read_integers("step").values()[0], kStep);
}

TEST_F(MappedSafetensors, ViewsLiveAsLongAsAnyCopyOfTheFile) {
  std::optional<io::MappedSafetensors> first(written());
  const View<const float, 2> x = first->view<2>("x");
  const io::MappedSafetensors second = *first;
  first.reset();
  EXPECT_EQ(x(0, 0), 1.0F);
  EXPECT_EQ(second.values("x").data(), x.data());
}

TEST_F(MappedSafetensors, AFileThatIsReplacedKeepsItsOldValues) {
  const io::MappedSafetensors file = written();
  const std::vector<float> other(12, -1.0F);
  io::write_safetensors(path_, {{"x", {12}, std::span<const float>(other)}});
  EXPECT_EQ(file.values("x")[11], 12.0F);
  io::write_safetensors(path_, {{"x", {12}, file.values("x")}});
  EXPECT_EQ(io::MappedSafetensors(path_).file().read("x").values.values()[11], 12.0F) << "written from the mapping";
}

// A foreign file: two bytes of u8 before the floats.
TEST_F(MappedSafetensors, UnalignedTensorsAreReadInstead) {
  const std::string header = "{" + entry("a", "U8", "[2]", "[0,2]") + "," + entry("x", "F32", "[2]", "[2,10]") + "}";
  const float two[] = {1.5F, -2.5F};
  std::string data(10, '\0');
  std::memcpy(data.data() + 2, two, sizeof(two));
  for (size_t spaces = 0; spaces < 4; ++spaces) {
    SCOPED_TRACE(spaces);
    const std::string padded = header + std::string(spaces, ' ');
    const io::MappedSafetensors file(directory_.file("f.safetensors", file_of(padded, data)));
    const bool aligned = (8 + padded.size() + 2) % 4 == 0;
    ASSERT_EQ(file.in_place("x"), aligned);
    EXPECT_EQ(file.file().read("x").values.values()[1], -2.5F);
    if (aligned) {
      EXPECT_EQ(file.values("x")[1], -2.5F);
    } else {
      expect_file_error([&] { file.values("x"); }, file.file().path(), {"not at a multiple of 4", "tensor 'x'"},
                        "read() copies it");
    }
  }
}

TEST_F(MappedSafetensors, OtherFormatsAndRanksAreRefused) {
  const io::MappedSafetensors file = written();
  EXPECT_FALSE(file.in_place("step"));
  expect_file_error([&] { file.values("step"); }, path_, {"i64", "tensor 'step'"}, "read() converts it");
  expect_file_error([&] { file.view<1>("x"); }, path_, {"rank 1", "[3, 4]", "tensor 'x'"});
  for (const auto& call : std::vector<std::function<void()>>{[&] { file.values("y"); }, [&] { file.view<2>("y"); },
                                                             [&] { file.in_place("y"); }}) {
    expect_file_error(call, path_, {"no tensor is named 'y'"});
  }
}

TEST_F(MappedSafetensors, EmptyArraysOfGreatSizesAreRefused) {
  const io::MappedSafetensors file(
      directory_.file("f.safetensors", file_of("{" + entry("x", "F32", "[1000000000000,0,4]", "[0,0]") + "}")));
  expect_file_error([&] { file.view<3>("x"); }, file.file().path(), {"no elements", "tensor 'x'"}, "size of 0");
}

}  // namespace
}  // namespace heed::test
