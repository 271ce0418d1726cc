#include "cli/doctor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/cli/in_process.h"
#include "tests/cli/json_schema.h"

namespace heed::cli {
namespace {

using Json = nlohmann::json;

// A machine without a fault.
Examination healthy() {
  Examination found;
  found.machine.cpu = "Fast Chip 9000";
  found.machine.logical_cpus = 4;
  found.machine.cores = 2;
  found.machine.caches = {{1, false, 48 * 1024, 2}, {3, true, 48 << 20, 4}};
  found.machine.memory = int64_t{16} << 30;
  found.machine.available = int64_t{8} << 30;
  found.machine.huge_pages = "madvise";
  found.threads = 2;
  found.isas = {"avx512", "avx2", "baseline"};
  found.isa = "avx512";
  found.speeds = {{1, {166.4, 320.25, 1.9}, 11.5}, {2, {331, 640, 1.9}, 20.125}};
  found.openblas = true;
  return found;
}

// Exactly this one problem, with this word in its hint.
void expect_problem(const Examination& found, const std::string& what, const std::string& hint) {
  const std::vector<Problem> problems = problems_of(found);
  ASSERT_EQ(problems.size(), 1U) << what;
  EXPECT_NE(problems[0].what.find(what), std::string::npos) << problems[0].what;
  EXPECT_NE(problems[0].hint.find(hint), std::string::npos) << problems[0].hint;
}

TEST(Doctor, TellsWhatTheMachineHas) {
  const std::string text = to_text(healthy());
  for (const char* line : {
           "CPU                Fast Chip 9000\n",
           "cores              2 cores, 4 hardware threads; Heed uses 2 threads\n",
           "instruction sets   avx512 (in use), avx2, baseline\n",
           "caches             L1d 48 KiB for 2 hardware threads, L3 48 MiB for 4 hardware threads\n",
           "memory             16 GiB, 8 GiB available\n",
           "huge pages         madvise\n",
           "multiply-adds      166 GFLOP/s on 1 thread, 331 on 2, at most\n",
           "first cache reads  320 GB/s on 1 thread, 640 on 2\n",
           "memory reads       11.5 GB/s on 1 thread, 20.1 on 2\n",
           "terminal           UTF-8, no colour, 100 columns\n",
           "\nNo problems.\n",
       }) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

TEST(Doctor, AHealthyMachineHasNoProblems) { EXPECT_TRUE(problems_of(healthy()).empty()); }

TEST(Doctor, EachProblemHasAHint) {
  Examination found = healthy();
  found.machine.huge_pages = "never";
  expect_problem(found, "huge pages are off", "madvise");
  found = healthy();
  found.machine.cpu_limit = 1.5;
  expect_problem(found, "allows 1.5 CPUs", "--threads 1");
  found = healthy();
  found.threads = 8;
  expect_problem(found, "take turns", "--threads 4");
  found = healthy();
  found.machine.load = 3;
  expect_problem(found, "load 3", "quiet");
  found = healthy();
  found.machine.available = 100 << 20;
  expect_problem(found, "100 MiB", "memory");
  found = healthy();
  found.terminal.utf8 = false;
  expect_problem(found, "UTF-8", "LC_ALL=C.UTF-8");
  found = healthy();
  found.openblas = false;
  expect_problem(found, "OpenBLAS", "libopenblas0");
  found = healthy();
  found.optimised = false;
  expect_problem(found, "not optimised", "release");
  found = healthy();
  found.isa = "avx2";
  expect_problem(found, "avx2 is in use", "--isa");
  found = healthy();
  found.isas = {"baseline"};
  found.isa = "baseline";
  expect_problem(found, "neither AVX-512 nor AVX2", "HEED_ISAS");
}

TEST(Doctor, ProblemsAreShownWithTheirHints) {
  Examination found = healthy();
  found.machine.huge_pages = "never";
  found.openblas = false;
  const std::string text = to_text(found);
  EXPECT_NE(text.find("\n2 problems:\n  huge pages are off"), std::string::npos) << text;
  EXPECT_NE(text.find("\n    hint: as root: echo madvise"), std::string::npos) << text;
}

TEST(Doctor, JsonHasTheSameFactsAndNullForWhatIsUnknown) {
  const Json answer = Json::parse(to_json(healthy()));
  EXPECT_EQ(answer["cpu"], "Fast Chip 9000");
  EXPECT_EQ(answer["cores"], 2);
  EXPECT_EQ(answer["speeds"][1]["memory_gbps"], 20.125);
  EXPECT_EQ(answer["cpu_limit"], nullptr);
  EXPECT_EQ(answer["problems"], Json::array());
  Examination unknown = healthy();
  unknown.machine = {};
  const Json empty = Json::parse(to_json(unknown));
  EXPECT_EQ(schema_mistake("doctor", empty), "");
  for (const char* name : {"cores", "hardware_threads", "memory_bytes", "huge_pages"}) {
    EXPECT_EQ(empty[name], nullptr) << name;
  }
}

TEST(Doctor, MeasuresThisMachine) {
  const std::string isa(isa_name(supported_isas().front()));
  const Result result = heed({"doctor", "--json", "--threads", "2", "--isa", isa});
  ASSERT_EQ(result.exit, kOk) << result.err;
  const Json answer = Json::parse(result.out);
  EXPECT_EQ(schema_mistake("doctor", answer), "");
  EXPECT_EQ(answer["threads"], 2);
  EXPECT_EQ(answer["isa"], isa);
  ASSERT_EQ(answer["speeds"].size(), 2U);
  for (const Json& speed : answer["speeds"]) {
    for (const char* name : {"gflops", "first_cache_gbps", "memory_gbps"}) EXPECT_GT(speed[name], 0.0) << name;
  }
}

TEST(Doctor, RefusesWhatCannotBe) {
  expect_usage_error({"doctor", "--threads", "0"}, "--threads is 0", "give 1 to 1024");
  expect_usage_error({"doctor", "--isa", "avx3"}, "unknown instruction set 'avx3'", "did you mean 'avx2'?");
}

}  // namespace
}  // namespace heed::cli
