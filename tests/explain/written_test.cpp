#include "heed/explain/written.h"

#include <gtest/gtest.h>

#include <limits>

namespace heed::explain {
namespace {

WrittenNumber written(const std::string& text) { return {std::stod(text), unit_of(text), text, 0}; }

Verdict verdict(const std::string& text, double exact) { return grade(written(text), exact); }

TEST(WrittenNumber, TheUnitIsOneOfTheLastWrittenDigit) {
  EXPECT_EQ(unit_of("0.50"), 0.01);
  EXPECT_EQ(unit_of("0.5"), 0.1);
  EXPECT_EQ(unit_of("-12"), 1.0);
  EXPECT_EQ(unit_of("+12.0"), 0.1);
  EXPECT_EQ(unit_of("1e-3"), 1e-3);
  EXPECT_EQ(unit_of("1.50e-3"), 1e-5);
  EXPECT_EQ(unit_of("1.2E+2"), 10.0);
  EXPECT_EQ(unit_of("3e2"), 100.0);
  EXPECT_EQ(unit_of("1_000.000_1"), 1e-4);
  EXPECT_EQ(unit_of("1e-99999999999"), 0.0);
  EXPECT_EQ(unit_of("0e+99999999999"), std::numeric_limits<double>::infinity());
}

TEST(WrittenNumber, DecimalsAreThoseOfTheUnit) {
  EXPECT_EQ(decimals_of(0.01), 2);
  EXPECT_EQ(decimals_of(1e-7), 7);
  EXPECT_EQ(decimals_of(1.0), 0);
  EXPECT_EQ(decimals_of(100.0), 0);
}

TEST(WrittenNumber, AValueBesideItHasTwoDigitsMore) {
  EXPECT_EQ(beside_text(0.441, 0.01), "0.4410");
  EXPECT_EQ(beside_text(-0.00001, 0.1), "0.000");
  EXPECT_EQ(beside_text(-std::numeric_limits<double>::infinity(), 0.1), "-inf");
  EXPECT_EQ(beside_text(1e20, 1.0), "1e+20");
}

TEST(Verdict, RightIsWithinHalfAUnitAndATieIsRight) {
  EXPECT_EQ(verdict("0.50", 0.504), Verdict::right);
  EXPECT_EQ(verdict("0.50", 0.496), Verdict::right);
  EXPECT_EQ(verdict("-0.08", -0.085), Verdict::right);  // half to even, as some round
  EXPECT_EQ(verdict("-0.09", -0.085), Verdict::right);
  EXPECT_EQ(verdict("0.00", -0.004), Verdict::right);
}

TEST(Verdict, CutIsWithinAUnitTowardsZero) {
  EXPECT_EQ(verdict("0.03", 0.0389), Verdict::cut);
  EXPECT_EQ(verdict("-0.06", -0.0680), Verdict::cut);
  EXPECT_EQ(verdict("0.0", 0.09), Verdict::cut);
  EXPECT_EQ(verdict("0.04", 0.0311), Verdict::near);  // away from zero
  EXPECT_EQ(verdict("0.03", 0.0400), Verdict::near);  // a whole unit is no cut
  EXPECT_EQ(verdict("-0.00", 0.0099), Verdict::cut);
}

TEST(Verdict, NearIsWithinTwoUnits) {
  EXPECT_EQ(verdict("0.77", 0.763), Verdict::near);
  EXPECT_EQ(verdict("0.25", 0.27), Verdict::near);
  EXPECT_EQ(verdict("0.25", 0.2701), Verdict::wrong);
  EXPECT_EQ(verdict("0.25", 0.23), Verdict::near);
  EXPECT_EQ(verdict("0.25", 0.2299), Verdict::wrong);
}

TEST(Verdict, TheDigitsWrittenDecide) {
  EXPECT_EQ(verdict("0.5", 0.54), Verdict::right);
  EXPECT_EQ(verdict("0.50", 0.54), Verdict::wrong);
  EXPECT_EQ(verdict("5e-1", 0.54), Verdict::right);
}

TEST(Verdict, MinusInfinityIsRightOnlyForItself) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(grade({-infinity, 1.0, "-inf", 0}, -infinity), Verdict::right);
  EXPECT_EQ(grade({-infinity, 1.0, "-inf", 0}, -3.0), Verdict::wrong);
  EXPECT_EQ(verdict("-1e9", -infinity), Verdict::wrong);
}

}  // namespace
}  // namespace heed::explain
