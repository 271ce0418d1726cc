#include "bench/row.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/machine.h"
#include "heed/simd/isa.h"

namespace heed::bench {
namespace {

using Json = nlohmann::json;

Row attention_row() {
  Row row;
  row.name = "forward-x";
  row.kind = "forward";
  row.attention = AttentionSizes{"window", "qkv", 512, 2, 8, 4, 64, 100, 200};
  row.threads = 2;
  row.isa = "avx2";
  row.measured = Measurement{0.25, 50, 100, 0.5, 0, 1, 7, 3, 1};
  row.base = "forward-y";
  row.of_base = 0.75;
  return row;
}

Row matmul_row() {
  Row row;
  row.name = "matmul-x";
  row.kind = "matmul";
  row.matmul = MatmulSizes{1, 2, 3, true};
  row.isa = "avx512";
  row.measured = Measurement{0.25, 50, 100, 0.5, 12, 1, 7, 0, 0};
  row.of_openblas = 1.25;
  row.read_gbps = 16;
  row.of_read = 0.75;
  return row;
}

Json document_of(const std::vector<Row>& rows) {
  std::ostringstream out;
  JsonReport report(out);
  for (const Row& row : rows) report.add(row);
  report.finish();
  return Json::parse(out.str());
}

TEST(JsonReport, BeginsWithSchemaCpuAndInstructionSet) {
  const Json document = document_of({});
  EXPECT_EQ(document["schema"], "heed/bench@1");
  EXPECT_EQ(document["cpu"], cpu_name());
  EXPECT_EQ(document["isa"], isa_name(isa()));
  EXPECT_TRUE(document["rows"].is_array());
  EXPECT_TRUE(document["rows"].empty());
}

TEST(JsonReport, AnAttentionRowHasItsSizesAndItsSharesAsFractionsOfOne) {
  const Json row = document_of({attention_row()})["rows"][0];
  EXPECT_EQ(row, Json::parse(R"({
    "name": "forward-x", "kind": "forward", "dtype": "f32", "mask": "window", "window": 512, "layout": "qkv",
    "batch": 2, "heads": 8, "kv_heads": 4, "dim": 64, "t_q": 100, "t_k": 200, "threads": 2, "isa": "avx2",
    "milliseconds": 250.0, "gflops": 50.0, "peak_gflops": 100.0, "of_peak": 0.5,
    "repetitions": 7, "repeated": 3, "busy": 1, "base": "forward-y", "of_base": 0.75})"));
}

TEST(JsonReport, ARowOfALayerHasTheWidthOfTheModelAndWhetherItsWeightsWerePacked) {
  Row row = attention_row();
  EXPECT_FALSE(document_of({row})["rows"][0].contains("width"));
  row.attention->width = 512;
  const Json json = document_of({row})["rows"][0];
  EXPECT_EQ(json["width"], 512);
  EXPECT_EQ(json["packed"], false);
}

TEST(JsonReport, AMatmulRowHasItsSizesAndItsPeers) {
  const Json row = document_of({matmul_row()})["rows"][0];
  EXPECT_EQ(row, Json::parse(R"({
    "name": "matmul-x", "kind": "matmul", "dtype": "f32", "m": 1, "n": 2, "k": 3, "packed": true,
    "threads": 1, "isa": "avx512", "milliseconds": 250.0, "gflops": 50.0, "peak_gflops": 100.0, "of_peak": 0.5,
    "gbps": 12.0, "repetitions": 7, "repeated": 0, "busy": 0, "read_gbps": 16.0, "of_read": 0.75,
    "of_openblas": 1.25})"));
}

TEST(JsonReport, AMemoryRowHasMegabytesAndNoSpeed) {
  Row row = attention_row();
  row.kind = "memory";
  row.measured.reset();
  row.of_base.reset();
  row.megabytes = 12.5;
  const Json json = document_of({row})["rows"][0];
  EXPECT_EQ(json["megabytes"], 12.5);
  EXPECT_FALSE(json.contains("gflops"));
  EXPECT_FALSE(json.contains("of_base"));
}

Row train_row() {
  Row row;
  row.name = "gpt-x";
  row.kind = "train";
  row.isa = "avx2";
  row.measured = Measurement{0.25, 50, 100, 0.5, 0, 1, 7, 0, 0};
  row.allocations = 0;
  row.profile = {{"linear", "backward", 8, 0.375}, {"optimiser", "", 1, 0.125}};
  return row;
}

TEST(JsonReport, ATrainRowHasItsAllocationsAndSharesOfTheStep) {
  EXPECT_EQ(document_of({train_row()})["rows"][0], Json::parse(R"({
    "name": "gpt-x", "kind": "train", "dtype": "f32", "threads": 1, "isa": "avx2",
    "milliseconds": 250.0, "gflops": 50.0, "peak_gflops": 100.0, "of_peak": 0.5,
    "repetitions": 7, "repeated": 0, "busy": 0, "allocations": 0, "profile": [
      {"op": "linear", "pass": "backward", "calls": 8, "milliseconds": 375.0, "of_step": 0.75},
      {"op": "optimiser", "calls": 1, "milliseconds": 125.0, "of_step": 0.25}]})"));
}

TEST(TextReport, AProfileHasALineAnOp) {
  std::ostringstream out;
  TextReport report(out);
  report.add(train_row());
  const std::string text = out.str();
  EXPECT_NE(text.find("  0 allocations a step\n  linear backward "), std::string::npos) << text;
  EXPECT_NE(text.find(" 8 calls   375.000   75.0 % of the step\n  optimiser "), std::string::npos) << text;
}

TEST(TextReport, ShowsSharesInPercentAndHowManyWereRepeated) {
  std::ostringstream out;
  TextReport report(out);
  report.add(attention_row());
  report.add(matmul_row());
  const std::string text = out.str();
  EXPECT_NE(text.find(cpu_name()), std::string::npos);
  EXPECT_NE(text.find("50.0 %     7      3  0.750 × forward-y  (1 in a busy phase)"), std::string::npos) << text;
  EXPECT_NE(text.find("1.250 × OpenBLAS  75.0 % of a plain read"), std::string::npos) << text;
}

// Counts how often what was written is passed on.
class FlushedText : public std::stringbuf {
 public:
  int flushes = 0;

 private:
  int sync() override {
    ++flushes;
    return 0;
  }
};

// The first row may take seconds: until then the head says that something is going on.
TEST(TextReport, TheHeadAndEachRowAreThereAtOnce) {
  FlushedText text;
  std::ostream out(&text);
  TextReport report(out);
  EXPECT_EQ(text.flushes, 1);
  report.add(attention_row());
  EXPECT_EQ(text.flushes, 2);
}

}  // namespace
}  // namespace heed::bench
