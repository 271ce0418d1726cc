#include "heed/explain/check_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "heed/io/file_error.h"

namespace heed::explain {
namespace {

WorkedExample parse(const std::string& text) { return parse_check_file(text, "test.toml"); }

// The file is refused with this message and place, and this hint.
void expect_refusal(const std::string& text, const std::string& message, const std::string& hint = "") {
  SCOPED_TRACE(text);
  try {
    parse(text);
    ADD_FAILURE() << "not refused";
  } catch (const io::FileError& error) {
    EXPECT_EQ(error.message() + " [" + error.at() + "]", message);
    EXPECT_EQ(error.hint(), hint);
  }
}

const std::string kClaim = "[claimed]\nweights = [[1]]\n";
const std::string kScaled = "scaled = [[1.0, 2.0], [3.0, 4.0]]\n";

TEST(CheckFile, TakesInputsOptionsAndClaims) {
  const WorkedExample example = parse(R"(
title = "t"
source = "s"
heads = 2
kv_heads = 1
softcap = 30.0
x = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
W_Q = [[[1.0], [0.0]], [[0.0], [1.0]]]
W_K = [[1.0], [1.0]]
W_V = [[1.0, 0.0], [0.0, 1.0]]
b_Q = [0.5, -0.5]
mask = "causal"

[claimed]
weights = [[], [[1, 0, 0], ["?", "?", 0], []]]
q = [[1.5, 1.5], [], []]
)");
  EXPECT_EQ(example.title, "t");
  EXPECT_EQ(example.source, "s");
  EXPECT_EQ(example.rules.heads, 2);
  EXPECT_EQ(example.rules.kv_heads, 1);
  EXPECT_EQ(example.rules.soft_cap, 30.0);
  EXPECT_EQ(example.exact[AttentionStep::q].shape(), (std::vector<int64_t>{2, 3, 1}));
  EXPECT_EQ(example.exact[AttentionStep::q].values, (std::vector<double>{1.5, 3.5, 5.5, 1.5, 3.5, 5.5}));
  EXPECT_EQ(example.exact[AttentionStep::heads].shape(), (std::vector<int64_t>{2, 3, 2}));
  ASSERT_EQ(example.steps.size(), 2U);  // in the order of the computation
  EXPECT_EQ(example.steps[0].step, AttentionStep::q);
  EXPECT_EQ(example.steps[0].at(1, 0, 0)->text, "1.5");
  EXPECT_FALSE(example.steps[0].at(0, 1, 0).has_value());
  EXPECT_FALSE(example.steps[1].at(0, 0, 0).has_value());
  EXPECT_EQ(example.steps[1].at(1, 1, 2)->line, 15);
  EXPECT_FALSE(example.steps[1].at(1, 1, 0).has_value());
}

std::vector<double> visible(const std::string& options) {
  return parse("scaled = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]\n" + options +
               "\n[claimed]\nweights = [[0.1, \"?\", \"?\"], []]")
      .rules.visible.values;
}

TEST(CheckFile, MasksByName) {
  EXPECT_EQ(visible("mask = \"none\""), std::vector<double>{});
  EXPECT_EQ(visible("mask = \"causal\"\nalign = \"top-left\""), (std::vector<double>{1, 0, 0, 1, 1, 0}));
  EXPECT_EQ(visible("mask = \"causal\"\nalign = \"bottom-right\""), (std::vector<double>{1, 1, 0, 1, 1, 1}));
  EXPECT_EQ(visible("window = [0, 1]\nalign = \"top-left\""), (std::vector<double>{1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(visible("window = [inf, 0]\nalign = \"top-left\""), (std::vector<double>{1, 0, 0, 1, 1, 0}));
  EXPECT_EQ(visible("lengths = 2"), (std::vector<double>{1, 1, 0, 1, 1, 0}));
  EXPECT_EQ(visible("lengths = [2]"), (std::vector<double>{1, 1, 0, 1, 1, 0}));
  EXPECT_EQ(visible("keep = [[1, 0, 1], [true, true, false]]"), (std::vector<double>{1, 0, 1, 1, 1, 0}));
  EXPECT_EQ(visible("block = [[1, 0, 1], [0, 0, 1]]"), (std::vector<double>{0, 1, 0, 1, 1, 0}));
  EXPECT_EQ(visible("mask = [[0, -inf, 0], [0, 0, 0.0]]"), (std::vector<double>{1, 0, 1, 1, 1, 1}));
  EXPECT_EQ(visible("lengths = 2\nkeep = [[1, 0, 1], [1, 1, 1]]"), (std::vector<double>{1, 0, 0, 1, 1, 0}));
}

TEST(CheckFile, MasksAndBiasesMayDifferFromHeadToHead) {
  const WorkedExample example = parse(R"(
heads = 2
scaled = [[[1.0, 2.0]], [[1.0, 2.0]]]
keep = [[[1, 0]], [[1, 1]]]
bias = [[0.5, 0.0]]
alibi = true
align = "bottom-right"
[claimed]
weights = [[[1, 0]], []]
)");
  EXPECT_EQ(example.rules.visible.values, (std::vector<double>{1, 0, 1, 1}));
  // Slopes 1/16 and 1/256; the query stands at key 1.
  EXPECT_EQ(example.rules.bias.values, (std::vector<double>{0.5 - 0.0625, 0.0, 0.5 - 0.00390625, 0.0}));
  EXPECT_EQ(example.exact[AttentionStep::biased].values[0], 1.4375);
  EXPECT_TRUE(std::isinf(example.exact[AttentionStep::masked].values[1]));
}

TEST(CheckFile, UnknownKeysNameTheNearest) {
  expect_refusal("w_q = [[1.0]]\n" + kClaim, "unknown key 'w_q' [test.toml:1]", "did you mean 'W_Q'?");
  expect_refusal(kScaled + "normaliser = \"softmax\"\n" + kClaim, "unknown key 'normaliser' [test.toml:2]",
                 "did you mean 'normalizer'?");
  expect_refusal(kScaled + "[claimed]\nwieghts = [[1]]", "unknown key 'claimed.wieghts' [test.toml:3]",
                 "did you mean 'weights'?");
  expect_refusal(kScaled + "[claimed.weights]\nvalues = 1",
                 "claimed.weights: it is a table, not a number [test.toml:2]", "leave a number out with \"?\"");
}

TEST(CheckFile, ShapesAreChecked) {
  expect_refusal("q = [[1.0, 2.0],\n  [3.0]]\n" + kClaim, "q: row 1 has 1 number, the one before it 2 [test.toml:2]",
                 "rows are equally long");
  expect_refusal("q = [[1.0, 2.0], 3.0]\n" + kClaim, "q: row 1 is a number among arrays [test.toml:1]");
  expect_refusal("q = [[1.0, [2.0]]]\n" + kClaim, "q: head 0, row 0 is a number among arrays [test.toml:1]");
  expect_refusal("q = [[[[1.0]]]]\n" + kClaim, "q: arrays nested 4 deep [test.toml:1]",
                 "a matrix is [[…], […]]; one a head is [[[…], […]], [[…], […]]]");
  expect_refusal("q = []\n" + kClaim, "q: it is empty [test.toml:1]");
  expect_refusal("q = [[1.0], []]\n" + kClaim, "q: row 1 is empty [test.toml:1]");
  expect_refusal("x = [[[1.0]]]\n" + kClaim, "x: three levels of arrays; it is one matrix, [[…], […]] [test.toml:1]");
  expect_refusal("x = [[1.0]]\nW_Q = [[1.0], [2.0]]\n" + kClaim,
                 "x [1, 1] times W_Q [2, 1]: the weight needs 1 rows [test.toml:2]");
  expect_refusal("heads = 2\nq = [[1.0, 2.0, 3.0]]\n" + kClaim, "q: 2 heads do not divide 3 columns [test.toml:2]");
  expect_refusal("heads = 2\nq = [[[1.0]]]\n" + kClaim, "q: 1 matrices for 2 heads [test.toml:2]");
  expect_refusal("heads = 2\nscaled = [[1.0]]\n" + kClaim, "scaled: one matrix for 2 heads [test.toml:2]",
                 "give one a head: [[[…], […]], [[…], […]]]");
  expect_refusal(kScaled + kClaim, "claimed.weights: its shape is [1, 1], that of the step [2, 2] [test.toml:3]",
                 "leave a number out with \"?\", a whole row with []");
  expect_refusal(kScaled + "keep = [[1, 0]]\n" + kClaim,
                 "keep: its shape is [1, 2], that of the scores [1, 2, 2] [test.toml:2]",
                 "a row for each query, a number for each key; one matrix serves all heads");
}

TEST(CheckFile, ValuesAreChecked) {
  expect_refusal("q = [[\"one\"]]\n" + kClaim, "q: row 0, number 0 is a text, not a number [test.toml:1]");
  expect_refusal("q = [[nan]]\n" + kClaim, "q: row 0, number 0 is nan, which is not finite [test.toml:1]");
  expect_refusal("q = [[-inf]]\n" + kClaim, "q: row 0, number 0 is -inf, which is not finite [test.toml:1]",
                 "only bias, mask, biased and masked may have -inf");
  expect_refusal("q = [[1e31]]\n" + kClaim, "q: row 0, number 0 is 1e31 [test.toml:1]",
                 "numbers up to 1e30 are taken, with digits down to 1e-30");
  expect_refusal("q = [[1e-99999999999]]\n" + kClaim, "q: row 0, number 0 is 1e-99999999999 [test.toml:1]",
                 "numbers up to 1e30 are taken, with digits down to 1e-30");
  expect_refusal("q = [[0x1E]]\n" + kClaim, "q: row 0, number 0 is 0x1E [test.toml:1]", "write it in decimal digits");
  expect_refusal("q = [[0." + std::string(60, '3') + "]]\n" + kClaim,
                 "q: row 0, number 0 is written with 62 characters [test.toml:1]", "40 are enough for any number here");
  expect_refusal("heads = 0\n" + kClaim, "heads: a whole number from 1 to 1024 is needed [test.toml:1]");
  expect_refusal("heads = 2.5\n" + kClaim, "heads: a whole number from 1 to 1024 is needed [test.toml:1]");
  expect_refusal("heads = 4\nkv_heads = 3\n" + kClaim,
                 "kv_heads: 3 key/value heads do not divide 4 heads [test.toml:2]");
  expect_refusal("scale = 0.0\n" + kClaim, "scale: it is 0.0 [test.toml:1]", "give a number above 0");
  expect_refusal("scale = [1.0, 2.0]\n" + kClaim, "scale: one number is needed [test.toml:1]");
  expect_refusal("normalizer = \"softmx\"\n" + kClaim, "normalizer: it is 'softmx' [test.toml:1]",
                 "give one of: \"softmax\" \"sigmoid\"");
  expect_refusal("title = 3\n" + kClaim, "title: it is a number, not a text [test.toml:1]");
  expect_refusal("title = \"\\u001b[31m\"\n" + kClaim, "title: a control character [test.toml:1]",
                 "one line of plain text is needed");
  expect_refusal(kScaled + "window = [1]\n" + kClaim, "window: two numbers are needed [test.toml:2]",
                 "[keys before the query, keys behind it], inf for all");
  expect_refusal(kScaled + "lengths = 3\n" + kClaim, "lengths: a whole number from 0 to 2 is needed [test.toml:2]");
  expect_refusal(kScaled + "keep = [[1, 2], [0, 0]]\n" + kClaim, "keep: numbers other than 0 and 1 [test.toml:2]",
                 "1 (true) or 0 (false) for each query and key");
  expect_refusal(kScaled + "mask = [[0, -1e9], [0, 0]]\n" + kClaim, "mask: numbers other than 0 and -inf [test.toml:2]",
                 "use keep, block or bias for other numbers");
  expect_refusal(kScaled + "sinks = [1.0, 2.0]\n" + kClaim, "sinks: its shape is [2] [test.toml:2]",
                 "one number a head: [1]");
}

TEST(CheckFile, ContradictionsAreRefused) {
  expect_refusal(kScaled + "keep = [[1, 0], [1, 1]]\nblock = [[1, 0], [0, 0]]\n" + kClaim,
                 "block: keep and block contradict each other [test.toml:3]", "give one of them");
  expect_refusal("scale = 1.0\nd_k = 4\n" + kClaim, "d_k: scale is given too [test.toml:2]",
                 "d_k says 1/√d_k: give one of them");
  expect_refusal(kScaled + "scale = 1.0\n" + kClaim,
                 "scale: it changes nothing, because scaled is given [test.toml:2]");
  expect_refusal("weights = [[1.0]]\nmask = \"causal\"\n" + kClaim,
                 "mask: it changes nothing, because weights is given [test.toml:2]");
  expect_refusal(kScaled + "align = \"top-left\"\n" + kClaim,
                 "align: nothing here depends on where the queries stand [test.toml:2]",
                 "it goes with mask = \"causal\", window or alibi");
  expect_refusal("q = [[1.0]]\nk = [[1.0]]\nscores = [[1.0]]\n" + kClaim,
                 "scores: q and k give it already [test.toml:3]", "leave it out, or claim it");
  expect_refusal("q = [[1.0]]\nk = [[1.0]]\nd_k = 4\n" + kClaim, "d_k: heads of q are 1 wide [test.toml:3]",
                 "leave d_k out, or give scale");
  expect_refusal(kScaled + "normalizer = \"sigmoid\"\nsinks = [1.0]\n" + kClaim,
                 "sinks: sigmoid weights have no sinks [test.toml:3]");
}

TEST(CheckFile, WhatIsMissingIsSaid) {
  expect_refusal("q = [[1.0]]\n", "nothing is claimed [test.toml]",
                 "put the steps to be checked into a table [claimed] at the end of the file");
  expect_refusal("scores = [[1.0]]\n" + kClaim, "scores: the scale is not known [test.toml:1]",
                 "give d_k (for 1/√d_k), or scale");
  expect_refusal(kScaled + "[claimed]\nout = [[1.0]]",
                 "claimed.out: it cannot be computed without concat and W_O [test.toml:3]",
                 "give W_O, or claim it as concat");
  expect_refusal(kScaled + "[claimed]\nheads = [[1.0]]", "claimed.heads: it cannot be computed without v [test.toml:3]",
                 "give v");
  expect_refusal(kScaled + "[claimed]\nmasked = [[1.0]]",
                 "claimed.masked: this computation has no such step [test.toml:3]",
                 "give mask, window, lengths, keep or block");
  expect_refusal(kScaled + "[claimed]\nx = [[1.0]]",
                 "claimed.x: it is not given, so there is nothing to compare it with [test.toml:3]");
  expect_refusal("q = [[1.0]]\nmask = \"causal\"\n" + kClaim, "mask: there are no scores [test.toml:2]",
                 "give q and k, or scores");
  expect_refusal(
      "q = [[1.0]]\nk = [[1.0], [2.0]]\nmask = \"causal\"\n" + kClaim, "mask: 1 queries and 2 keys [test.toml:3]",
      "say where the queries stand: align = \"bottom-right\" (the last query at the last key) or \"top-left\"");
  expect_refusal(kScaled + "[claimed]\nweights = [[\"?\"], []]",
                 "claimed.weights: its shape is [2, 1], that of the step [2, 2] "
                 "[test.toml:3]",
                 "leave a number out with \"?\", a whole row with []");
  expect_refusal(kScaled + "[claimed]\nweights = [[\"?\", \"?\"], []]", "claimed.weights: no numbers [test.toml:3]",
                 "leave the step out");
  expect_refusal(kScaled + "[claimed]\nweights = [[], []]", "claimed.weights: no numbers [test.toml:3]");
}

TEST(CheckFile, SmallFilesCannotAskForMuchMemory) {
  std::string column = "[1.0]";
  for (int n = 1; n < 2000; ++n) column += ", [1.0]";
  expect_refusal("q = [" + column + "]\nk = [" + column + "]\n" + kClaim,
                 "a step would have [1, 2000, 2000] numbers; the most is 524288 [test.toml:2]");
  expect_refusal("x = [" + column + "]\nW_Q = [[1.0]]\nW_K = [[1.0]]\n" + kClaim,
                 "a step would have [1, 2000, 2000] numbers; the most is 524288 [test.toml:1]");
}

TEST(CheckFile, LargeAndMissingFilesAreRefused) {
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "heed_check_file_test.toml";
  std::ofstream(path) << std::string(static_cast<size_t>(kMostCheckFileBytes) + 1, '#');
  EXPECT_THROW(read_check_file(path.string()), io::FileError);
  std::filesystem::remove(path);
  EXPECT_THROW(read_check_file(path.string()), io::FileError);
}

}  // namespace
}  // namespace heed::explain
