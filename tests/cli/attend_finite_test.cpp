// Rows that are not finite: counted, told first, and left out of the other checks by name.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/cli/attend_files.h"

namespace heed::cli {
namespace {

using Words = std::vector<std::string>;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Three heads of four queries; NaN in query 1 of head 0, ∞ in the queries 2 and 3 of head 2.
Words three_bad_rows(const Files& files, float bad) {
  Tensor q = drawn({3, 4, 5}, 1);
  const View<float, 3> at = q.view<3>();
  at(0, 1, 2) = NAN;
  at(2, 2, 0) = bad;
  at(2, 3, 4) = bad;
  return {"attend",
          "--q",
          files.npy("q.npy", q),
          "--k",
          files.npy("k.npy", drawn({3, 4, 5}, 2)),
          "--v",
          files.npy("v.npy", drawn({3, 4, 5}, 3))};
}

TEST(AttendFinite, RowsThatAreNotFiniteAreToldFirst) {
  const Files files;
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    const Result result = heed(three_bad_rows(files, bad));
    EXPECT_EQ(result.exit, kOk);
    const std::string checks = result.out.substr(result.out.find("\nchecks\n"));
    const std::string first = "3 of 12 rows are not finite (NaN or ∞): the first is head 0, row 1";
    EXPECT_TRUE(has(checks, "checks\n  not finite          " + first + "\n  row sums            1 within ")) << checks;
    EXPECT_TRUE(has(checks, "e-07, of the finite rows\n") || has(checks, "e-08, of the finite rows\n")) << checks;
    EXPECT_TRUE(has(checks, "of what is finite\n")) << checks;
    EXPECT_TRUE(has(result.err, "heed: warning: " + first + "\n")) << result.err;
  }
}

TEST(AttendFinite, JsonCountsThem) {
  const Files files;
  const Words run = three_bad_rows(files, NAN);
  const Json checks = json_of(run)["checks"];
  EXPECT_EQ(checks["rows_nonfinite"], 3);
  EXPECT_EQ(checks["first_row_nonfinite"], "head 0, row 1");
  EXPECT_LT(checks["row_sum_max_err"].get<double>(), 1e-6);
  EXPECT_EQ(checks.begin().key(), "rows_nonfinite");
  EXPECT_EQ(json_of(run + Words{"--head", "2", "--rows", "2:4"})["checks"]["rows_nonfinite"], 2);
  EXPECT_EQ(json_of(run + Words{"--head", "2", "--rows", "2:4"})["checks"]["first_row_nonfinite"], "head 2, row 2");
  EXPECT_EQ(json_of(run + Words{"--head", "1"})["checks"]["rows_nonfinite"], 0);
  EXPECT_FALSE(json_of(run + Words{"--head", "1"})["checks"].contains("first_row_nonfinite"));
}

TEST(AttendFinite, WhereNoRowIsFiniteNothingIsClaimed) {
  const Files files;
  Tensor v = drawn({2, 4}, 3);
  v.values()[0] = NAN;
  const Words run{"attend",
                  "--q",
                  files.npy("q.npy", drawn({2, 4}, 1)),
                  "--k",
                  files.npy("k.npy", drawn({2, 4}, 2)),
                  "--v",
                  files.npy("v.npy", v)};
  const std::string text = heed(run).out;
  EXPECT_TRUE(has(text, "2 of 2 rows are not finite")) << text;
  EXPECT_TRUE(has(text, "row sums            none to check: no row is finite\n")) << text;
  EXPECT_FALSE(has(text, "1 within")) << text;
  EXPECT_FALSE(json_of(run)["checks"].contains("row_sum_max_err"));
}

TEST(AttendFinite, AResultThatTheLastProjectionSpoilsIsCounted) {
  const Files files;
  const Tensor in = drawn({12, 4}, 1);
  Tensor out = drawn({4, 4}, 2);
  out.values()[5] = INFINITY;
  io::write_safetensors(files.file("w.safetensors"), {{"in_proj_weight", &in}, {"out_proj.weight", &out}});
  const Words run{"attend",  "--x", files.npy("x.npy", drawn({3, 4}, 4)), "--weights", files.file("w.safetensors"),
                  "--heads", "2"};
  const std::string text = heed(run).out;
  EXPECT_TRUE(has(text, "3 rows of out are not finite (NaN or ∞): the first is row 0")) << text;
  const Json checks = json_of(run)["checks"];
  EXPECT_EQ(checks["rows_nonfinite"], 0);
  EXPECT_EQ(checks["out_rows_nonfinite"], 3);
}

TEST(AttendFinite, FiniteRowsAreNotSpokenOf) {
  const Result result = heed({"attend", "--example", "self"});
  EXPECT_FALSE(has(result.out, "finite"));
  EXPECT_EQ(result.err, "");
  const Json checks = json_of({"attend", "--example", "self"})["checks"];
  EXPECT_EQ(checks["rows_nonfinite"], 0);
  EXPECT_EQ(checks["out_rows_nonfinite"], 0);
}

}  // namespace
}  // namespace heed::cli
