#include "heed/simd/isa.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "heed/core/error.h"
#include "heed/simd/dispatch.h"
#include "tests/support/every_isa.h"

namespace heed::test {
namespace {

constexpr Isa kAll[] = {Isa::baseline, Isa::avx2, Isa::avx512};

bool has(Isa wanted) {
  const auto& isas = supported_isas();
  return std::find(isas.begin(), isas.end(), wanted) != isas.end();
}

TEST(InstructionSet, TheBestOneIsInUseUntilAnotherIsForced) { EXPECT_EQ(isa(), supported_isas().back()); }

TEST(InstructionSet, NamesAreThoseOfTheCommandLine) {
  EXPECT_EQ(isa_name(Isa::baseline), "baseline");
  EXPECT_EQ(isa_name(Isa::avx2), "avx2");
  EXPECT_EQ(isa_name(Isa::avx512), "avx512");
}

TEST(InstructionSet, SupportedOnesAreOrderedAndUnique) {
  const auto& isas = supported_isas();
  EXPECT_FALSE(isas.empty());
  EXPECT_TRUE(std::is_sorted(isas.begin(), isas.end()));
  EXPECT_EQ(std::adjacent_find(isas.begin(), isas.end()), isas.end());
}

TEST(InstructionSet, ForcingOneMakesDispatchCallItsKernels) {
  size_t index = 0;
  on_every_isa([&] {
    const Isa forced = supported_isas()[index++];
    EXPECT_EQ(isa(), forced);
    EXPECT_EQ((dispatch([]<Isa called>() { return called; })), forced);
  });
}

TEST(InstructionSet, OneThatTheMachineLacksIsRefusedAndChangesNothing) {
  if (supported_isas().size() == std::size(kAll)) GTEST_SKIP() << "this machine has them all";
  const Isa before = isa();
  for (const Isa each : kAll) {
    if (has(each)) continue;
    try {
      set_isa(each);
      ADD_FAILURE() << isa_name(each) << " was accepted";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(isa_name(each)), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(isa_name(supported_isas().back())), std::string::npos) << error.what();
    }
    EXPECT_EQ(isa(), before);
  }
}

}  // namespace
}  // namespace heed::test
