#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "heed/simd/isa.h"
#include "tests/cli/in_process.h"
#include "tests/cli/json_schema.h"

namespace heed::cli {
namespace {

using Json = nlohmann::json;

TEST(BenchCommand, RefusesAnUnknownInstructionSet) {
  expect_usage_error({"bench", "attention", "--isa", "avx3"}, "unknown instruction set 'avx3'", "did you mean 'avx2'?");
  expect_usage_error({"bench", "attention", "--isa", "quantum"}, "unknown instruction set 'quantum'",
                     "give avx512, avx2 or baseline");
}

TEST(BenchCommand, RefusesAnInstructionSetThatIsNotHere) {
  const auto& has = supported_isas();
  for (const Isa each : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (std::find(has.begin(), has.end(), each) != has.end()) continue;
    const std::string name(isa_name(each));
    expect_usage_error({"bench", "attention", "--isa", name}, "this CPU has no " + name,
                       "its best is " + std::string(isa_name(has.back())));
  }
}

TEST(BenchCommand, RefusesThreadsBelowOne) {
  expect_usage_error({"bench", "attention", "--threads", "0"}, "--threads is 0", "give 1 to 1024");
  expect_usage_error({"bench", "matmul", "--threads", "-3"}, "--threads is -3", "give 1 to 1024");
  expect_usage_error({"bench", "probe", "--threads=2000"}, "--threads is 2000", "give 1 to 1024");
  EXPECT_EQ(heed({"bench", "attention", "--threads", "many"}).exit, kUsage);
}

TEST(BenchCommand, RefusesRepetitionsBelowOne) {
  expect_usage_error({"bench", "attention", "--repetitions", "0"}, "--repetitions is 0",
                     "give 1 or more; 7 or more for a median to trust");
}

TEST(BenchCommand, RefusesUnknownCasesAndSelectionsOfNothing) {
  expect_usage_error({"bench", "attention", "--case", "backwards"}, "unknown case 'backwards'",
                     "did you mean 'backward'? heed bench attention --list shows them all");
  expect_usage_error({"bench", "matmul", "--case", "nothing-like-it"}, "unknown case 'nothing-like-it'",
                     "heed bench matmul --list shows them all");
  expect_usage_error({"bench", "attention", "--quick", "--case", "window"},
                     "every row asked for takes too long for --quick",
                     "leave --quick away, or name single rows; heed bench attention --list shows them all");
  expect_usage_error({"bench", "attention", "--rows-matching", "zzz"}, "no row has 'zzz' in its name",
                     "heed bench attention --list shows them all");
}

TEST(BenchCommand, WithJsonAnErrorIsAnObjectToo) {
  const Result result = heed({"bench", "attention", "--json", "--case", "backwards"});
  EXPECT_EQ(result.exit, kUsage);
  const Json error = Json::parse(result.out)["error"];
  EXPECT_EQ(error["code"], "usage.unknown_case");
  EXPECT_EQ(error["exit"], 2);
  EXPECT_EQ(error["message"], "unknown case 'backwards'");
  EXPECT_EQ(error["hint"], "did you mean 'backward'? heed bench attention --list shows them all");
  EXPECT_NE(result.err, "");
}

TEST(BenchCommand, ListsGroupsAndRowsAndMeasuresNothing) {
  const Result result = heed({"bench", "attention", "--list"});
  EXPECT_EQ(result.exit, kOk);
  EXPECT_NE(result.out.find("memory  memory-d64-t32768-dense\n"), std::string::npos);
  EXPECT_EQ(result.err, "");
}

TEST(BenchCommand, ListsWhatIsSelected) {
  EXPECT_EQ(heed({"bench", "attention", "--list", "--case", "window"}).out, "window  forward-d64-t8192-window512\n");
  EXPECT_EQ(heed({"bench", "attention", "--list", "--quick"}).out.find("t8192"), std::string::npos);
  EXPECT_EQ(heed({"bench", "attention", "--list", "--case", "windows"}).exit, kUsage);
  EXPECT_EQ(answer_mistake(Json::parse(heed({"bench", "attention", "--list", "--json"}).out)), "");
}

TEST(BenchCommand, UnderscoresInFlagsAreDashes) {
  EXPECT_EQ(heed({"bench", "attention", "--rows_matching=zzz"}).err,
            heed({"bench", "attention", "--rows-matching=zzz"}).err);
}

TEST(BenchCommand, JsonIsOneDocumentWithTheRowsAskedFor) {
  const Result result = heed({"bench", "attention", "--json", "--repetitions", "1", "--threads", "1", "--case",
                              "both-b12-h4-d32-t64-causal", "--case", "forward-d64-t128-dense"});
  EXPECT_EQ(result.exit, kOk) << result.err;
  EXPECT_EQ(result.err, "");
  const Json document = Json::parse(result.out);
  EXPECT_EQ(document["schema"], "heed/bench@1");
  EXPECT_EQ(answer_mistake(document), "");
  ASSERT_EQ(document["rows"].size(), 2U);
  EXPECT_EQ(document["rows"][0]["name"], "forward-d64-t128-dense");
  const Json& row = document["rows"][1];
  EXPECT_EQ(row["kind"], "both");
  EXPECT_EQ(row["mask"], "causal");
  EXPECT_EQ(row["layout"], "bhtd");
  EXPECT_EQ(row["batch"], 12);
  EXPECT_EQ(row["heads"], 4);
  EXPECT_EQ(row["kv_heads"], 4);
  EXPECT_EQ(row["dim"], 32);
  EXPECT_EQ(row["t_q"], 64);
  EXPECT_EQ(row["t_k"], 64);
  EXPECT_EQ(row["threads"], 1);
  EXPECT_EQ(row["repetitions"], 1);
  for (const char* name : {"milliseconds", "gflops", "peak_gflops", "of_peak"}) EXPECT_GT(row[name], 0.0) << name;
}

// Of a run that must succeed and obey its schema.
Json first_row(const Result& result) {
  EXPECT_EQ(result.exit, kOk) << result.err;
  const Json document = Json::parse(result.out);
  EXPECT_EQ(answer_mistake(document), "");
  return document["rows"][0];
}

TEST(BenchCommand, MatmulRowsHaveTheirSizes) {
  const Result result = heed({"bench", "matmul", "--json", "--repetitions", "1", "--case", "matmul-64x64x64-packed"});
  const Json row = first_row(result);
  EXPECT_EQ(row["kind"], "matmul");
  for (const char* name : {"m", "n", "k"}) EXPECT_EQ(row[name], 64) << name;
  EXPECT_EQ(row["packed"], true);
  EXPECT_GT(row["of_peak"], 0.0);
  // Without OpenBLAS on the machine the column is empty, and standard error says so.
  EXPECT_EQ(row.contains("of_openblas"), result.err.empty()) << result.err;
}

TEST(BenchCommand, DecodeRowsStandBesideAPlainRead) {
  const Json row =
      first_row(heed({"bench", "decode", "--json", "--repetitions", "1", "--case", "decode-h8-d64-t4096"}));
  EXPECT_EQ(row["kind"], "decode");
  EXPECT_EQ(row["t_q"], 1);
  EXPECT_GT(row["of_read"], 0.0);
}

TEST(BenchCommand, TrainRowsHaveTheirAllocationsAndAProfileWhereAskedFor) {
  const Result result =
      heed({"bench", "train", "--json", "--profile", "--repetitions", "1", "--threads", "1", "--case", "gpt-tiny"});
  const Json row = first_row(result);
  EXPECT_EQ(row["name"], "gpt-tiny");
  EXPECT_EQ(row["kind"], "train");
  EXPECT_EQ(row["threads"], 1);
  EXPECT_EQ(row["allocations"], 0);
  EXPECT_GT(row["of_peak"], 0.0);
  double whole = 0;
  for (const Json& each : row["profile"]) whole += each["of_step"].get<double>();
  EXPECT_NEAR(whole, 1, 1e-9);
}

TEST(BenchCommand, TrainListsTheModels) {
  EXPECT_EQ(heed({"bench", "train", "--list", "--quick"}).out, "language-model  gpt-tiny\n");
  EXPECT_EQ(answer_mistake(Json::parse(heed({"bench", "train", "--list", "--json"}).out)), "");
}

TEST(BenchCommand, TextHasALineARow) {
  const Result result = heed({"bench", "attention", "--repetitions", "1", "--case", "forward-d64-t128-dense", "--isa",
                              std::string(isa_name(supported_isas().front()))});
  EXPECT_EQ(result.exit, kOk) << result.err;
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 3);
  EXPECT_NE(result.out.find("forward-d64-t128-dense"), std::string::npos);
}

TEST(BenchCommand, AnswersEachLineWithAProbe) {
  const Result result = heed({"bench", "probe", "--json", "--each-line", "--threads", "2"}, {"\n\n\n", {}});
  EXPECT_EQ(result.exit, kOk) << result.err;
  std::istringstream lines(result.out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const Json probe = Json::parse(line);
    EXPECT_EQ(probe["schema"], "heed/bench-probe@1");
    EXPECT_EQ(answer_mistake(probe), "");
    EXPECT_EQ(probe["threads"], 2);
    EXPECT_GT(probe["gflops"], 0.0);
    EXPECT_GT(probe["read_gbps"], 0.0);
    EXPECT_GT(probe["read_share"], 0.0);
  }
  EXPECT_EQ(count, 3);
}

}  // namespace
}  // namespace heed::cli
