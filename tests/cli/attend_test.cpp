// `heed attend` on a user's own tensors.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "heed/attention/attention.h"
#include "heed/explain/examples.h"
#include "tests/cli/attend_files.h"

namespace heed::cli {
namespace {

using Words = std::vector<std::string>;

TEST(Attend, TakesRankTwoAsTokensAndWidth) {
  const Files files;
  const Json document = json_of(files.qkv({4, 8}, {6, 8}, {6, 5}));
  EXPECT_EQ(document["sizes"]["queries"], 4);
  EXPECT_EQ(document["sizes"]["keys"], 6);
  EXPECT_EQ(document["sizes"]["heads"], 1);
  EXPECT_EQ(document["sizes"]["d_v"], 5);
  EXPECT_EQ(step_of(document, "heads")["shape"], Json({1, 4, 1, 5}));
  EXPECT_LT(document["checks"]["ref_max_abs_diff"].get<double>(), 1e-6);
  EXPECT_LT(document["checks"]["row_sum_max_err"].get<double>(), 1e-6);
}

// The same numbers in every layout give the same result, in the layout of q.
TEST(Attend, LayoutsAgreeAndTheResultHasThatOfQ) {
  const int64_t B = 2, T = 5, H = 3, D = 4;
  const Tensor bthd[3] = {drawn({B, T, H, D}, 1), drawn({B, T, H, D}, 2), drawn({B, T, H, D}, 3)};
  const Files files;
  const auto run = [&](const std::string& name, const std::vector<int64_t>& shape, const std::array<int, 4>& order,
                       const Words& flags) {
    Words arguments{"attend"};
    for (int i = 0; i < 3; ++i) {
      Tensor turned(shape);
      const View<const float, 4> from = bthd[i].view<4>().permuted(order);
      size_t at = 0;
      for (int64_t a = 0; a < from.size(0); ++a) {
        for (int64_t b = 0; b < from.size(1); ++b) {
          for (int64_t c = 0; c < from.size(2); ++c) {
            for (int64_t d = 0; d < from.size(3); ++d) turned.values()[at++] = from(a, b, c, d);
          }
        }
      }
      arguments = arguments + Words{std::string("--") + "qkv"[i], files.npy(name + "qkv"[i] + ".npy", turned)};
    }
    const std::string out = files.file(name + "-out.npy");
    const Result result = heed(arguments + flags + Words{"--out", out, "--step", "weights"});
    EXPECT_EQ(result.exit, kOk) << result.err;
    Tensor read = io::read_npy(out).values;
    EXPECT_EQ(read.shape(), shape) << name;
    return read;
  };
  const Tensor a = run("bthd", {B, T, H, D}, {0, 1, 2, 3}, {"--layout", "bthd"});
  const Tensor b = run("bhtd", {B, H, T, D}, {0, 2, 1, 3}, {"--layout", "bhtd"});
  const Tensor c = run("flat", {B, T, H * D}, {0, 1, 2, 3}, {"--heads", "3"});
  EXPECT_TRUE(std::equal(a.values().begin(), a.values().end(), c.values().begin()));
  const View<const float, 4> turned = b.view<4>().permuted({0, 2, 1, 3});
  for (int64_t i = 0; i < a.count(); ++i) {
    EXPECT_EQ(a.values()[static_cast<size_t>(i)], turned(i / (T * H * D), i / (H * D) % T, i / D % H, i % D));
  }
}

TEST(Attend, RankThreeIsHeadsFirstAndKeysMayHaveFewer) {
  const Files files;
  const Json document = json_of(files.qkv({4, 3, 8}, {2, 5, 8}, {2, 5, 6}));
  EXPECT_EQ(document["sizes"]["heads"], 4);
  EXPECT_EQ(document["sizes"]["kv_heads"], 2);
  EXPECT_EQ(step_of(document, "concat")["shape"], Json({1, 3, 24}));
  EXPECT_EQ(document["plan"]["visible_pairs"], 4 * 3 * 5);
}

TEST(Attend, RowsHaveTheNumbersOfTheWhole) {
  const Files files;
  const Words flags = files.qkv({2, 9, 8}, {2, 12, 8}, {2, 12, 8}) + Words{"--causal", "--align", "bottom-right"};
  const Json whole = json_of(flags);
  const Json part = json_of(flags + Words{"--rows", "3:5", "--head", "1"});
  EXPECT_EQ(step_of(part, "weights")["shape"], Json({1, 1, 2, 12}));
  EXPECT_EQ(step_of(part, "weights")["first"], Json({0, 1, 3, 0}));
  EXPECT_EQ(step_of(part, "weights")["of"], Json({1, 2, 9, 12}));
  for (const char* name : {"scores", "scaled", "masked", "weights"}) {
    EXPECT_EQ(step_of(part, name)["data"][0][0][0], step_of(whole, name)["data"][0][1][3]) << name;
    EXPECT_EQ(step_of(part, name)["data"][0][0][1], step_of(whole, name)["data"][0][1][4]) << name;
  }
  EXPECT_EQ(step_of(part, "heads")["data"][0][0][0], step_of(whole, "heads")["data"][0][3][1]);
  EXPECT_EQ(part["visible"][0][0][0], whole["visible"][0][1][3]);
  EXPECT_EQ(part["plan"], whole["plan"]);
  EXPECT_EQ(json_of(flags + Words{"--rows", "3"})["steps"][0]["shape"], Json({1, 1, 2, 8}));
}

TEST(Attend, TopKeysAreThoseOfTheLargestWeights) {
  const Files files;
  const Json document = json_of(files.qkv({3, 8}, {7, 8}, {7, 8}) + Words{"--top-k", "3"});
  ASSERT_EQ(document["top_keys"].size(), 3U);
  for (const Json& row : document["top_keys"]) {
    const Json& weights = step_of(document, "weights")["data"][0][0][row["row"].get<size_t>()];
    ASSERT_EQ(row["keys"].size(), 3U);
    float entropy = 0.0F;
    for (const Json& each : weights) {
      EXPECT_LE(each.get<float>(), row["weights"][0].get<float>());
      entropy -= each.get<float>() * std::log(each.get<float>());
    }
    for (size_t n = 0; n < 3; ++n) {
      EXPECT_NEAR(weights[row["keys"][n].get<size_t>()].get<float>(), row["weights"][n].get<float>(), 1e-6F);
    }
    EXPECT_NEAR(row["entropy"].get<float>(), entropy, 1e-5F);
  }
}

// json_of looks at the schema, here and everywhere.
TEST(Attend, EveryExampleHasGradientsAndTopKeys) {
  for (const auto& [name, about] : explain::example_names()) {
    SCOPED_TRACE(name);
    const Json document = json_of({"attend", "--example", name, "--grad", "--top-k", "2"});
    EXPECT_FALSE(document["gradients"].empty());
    EXPECT_EQ(document["top_keys"].size(), document["checks"]["rows_shown"]);
  }
}

TEST(Attend, TopKeysOfSigmoidHaveNoEntropy) {
  const Json document = json_of({"attend", "--example", "sigmoid", "--top-k", "1"});
  EXPECT_FALSE(document["top_keys"][0].contains("entropy"));
  EXPECT_EQ(document["top_keys"][0]["keys"], Json({1}));
  EXPECT_NEAR(document["top_keys"][0]["weights"][0].get<double>(), 0.5007, 1e-4);
}

TEST(Attend, MasksHideWhatTheySay) {
  const Files files;
  const Words qkv = files.qkv({4, 8}, {4, 8}, {4, 8});
  const auto visible = [&](const Words& flags) { return json_of(qkv + flags)["visible"][0][0]; };
  EXPECT_EQ(visible({"--causal"}), Json({{1, 0, 0, 0}, {1, 1, 0, 0}, {1, 1, 1, 0}, {1, 1, 1, 1}}));
  EXPECT_EQ(visible({"--window", "1,0"}), Json({{1, 0, 0, 0}, {1, 1, 0, 0}, {0, 1, 1, 0}, {0, 0, 1, 1}}));
  EXPECT_EQ(visible({"--window", "inf,1"}), Json({{1, 1, 0, 0}, {1, 1, 1, 0}, {1, 1, 1, 1}, {1, 1, 1, 1}}));
  EXPECT_EQ(visible({"--lengths", "2"})[3], Json({1, 1, 0, 0}));
  const std::string mask = files.npy("m.npy", tensor_of({4, 4}, {1, 0, 1, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0}));
  EXPECT_EQ(visible({"--keep", mask}), Json({{1, 0, 1, 0}, {1, 1, 1, 1}, {0, 0, 0, 1}, {1, 0, 0, 0}}));
  EXPECT_EQ(visible({"--block", mask}), Json({{0, 1, 0, 1}, {0, 0, 0, 0}, {1, 1, 1, 0}, {0, 1, 1, 1}}));
  EXPECT_EQ(json_of(qkv + Words{"--causal", "--lengths", "3"})["mask"], "causal & lengths");
  EXPECT_FALSE(json_of(qkv).contains("visible"));
}

TEST(Attend, ARowWithoutAKeyIsSaidAndIsZero) {
  const Files files;
  const std::string mask = files.npy("m.npy", tensor_of({2, 2}, {1, 0, 0, 0}));
  const Words flags = files.qkv({2, 4}, {2, 4}, {2, 4}) + Words{"--keep", mask};
  const Result result = heed(flags);
  EXPECT_EQ(result.exit, kOk);
  EXPECT_EQ(result.err, "heed: warning: row 1 sees no key; its output is defined as 0 (PyTorch would give NaN)\n");
  EXPECT_NE(result.out.find("rows without a key"), std::string::npos);
  const Json document = json_of(flags);
  EXPECT_EQ(document["checks"]["rows_without_key"], 1);
  EXPECT_EQ(step_of(document, "weights")["data"][0][0][1], Json({0, 0}));
  EXPECT_EQ(step_of(document, "heads")["data"][0][1][0], Json({0, 0, 0, 0}));
}

TEST(Attend, NoQueriesOrNoKeysAreNoError) {
  const Files files;
  const std::string out = files.file("out.npy"), page = files.file("page.html");
  const Words everything{"--top-k", "2", "--grad", "--out", out};
  for (const auto& [t_q, t_k] : {std::array<int64_t, 2>{0, 3}, {3, 0}, {0, 0}}) {
    SCOPED_TRACE(std::to_string(t_q) + " queries, " + std::to_string(t_k) + " keys");
    const Words flags = files.qkv({2, t_q, 4}, {2, t_k, 4}, {2, t_k, 5}) + everything;
    const Json document = json_of(flags);
    EXPECT_EQ(step_of(document, "weights")["shape"], Json({1, 2, t_q, t_k}));
    ASSERT_EQ(document["top_keys"].size(), static_cast<size_t>(2 * t_q)) << "a row for each query of each head";
    for (const Json& row : document["top_keys"]) EXPECT_EQ(row["keys"], Json::array());
    const Tensor read = io::read_npy(out).values;
    EXPECT_EQ(read.shape(), (std::vector<int64_t>{2, t_q, 5}));
    for (const float each : read.values()) EXPECT_EQ(each, 0.0F);
    const Result text = heed(flags);
    EXPECT_EQ(text.exit, kOk) << text.err;
    EXPECT_EQ(text.out.find("no visible key") != std::string::npos, t_q > 0) << text.out;
    EXPECT_EQ(text.err.find("PyTorch"), std::string::npos) << "it gives 0 too where there are no keys at all";
    EXPECT_EQ(heed(flags + Words{"--html", page}).exit, kOk);
  }
}

TEST(Attend, WhatIsNotFiniteIsSaidAndShown) {
  const Files files;
  Tensor k = drawn({3, 4}, 2);
  k.values()[5] = std::numeric_limits<float>::quiet_NaN();
  Words flags = files.qkv({2, 4}, {3, 4}, {3, 4});
  files.npy("k.npy", k);
  const Result result = heed(flags);
  EXPECT_EQ(result.exit, kOk);
  EXPECT_NE(result.err.find("k.npy holds 1 value that is not finite"), std::string::npos) << result.err;
  EXPECT_NE(result.out.find("nan"), std::string::npos);
  const Json document = json_of(flags);
  EXPECT_EQ(step_of(document, "k")["nonfinite"], 1);
  EXPECT_EQ(step_of(document, "scores")["nonfinite"], 2);
  EXPECT_EQ(step_of(document, "scores")["data"][0][0][0][1], nullptr);
}

// A layer's q, k and v given as such lead to the same heads.
TEST(Attend, TokensAndWeightsNamedAsInPyTorch) {
  const Files files;
  const std::string x = files.npy("x.npy", drawn({5, 12}, 1));
  const Tensor in_weight = drawn({36, 12}, 2, 0.3F), in_bias = drawn({36}, 3), out_weight = drawn({12, 12}, 4, 0.3F),
               out_bias = drawn({12}, 5);
  const std::string weights = files.file("w.safetensors");
  io::write_safetensors(weights, {{"layer.in_proj_weight", &in_weight},
                                  {"layer.in_proj_bias", &in_bias},
                                  {"layer.out_proj.weight", &out_weight},
                                  {"layer.out_proj.bias", &out_bias}});
  const std::string trace = files.file("trace.safetensors"), out = files.file("out.npy");
  const Words layer{"attend", "--x", x, "--weights", weights + ":layer.", "--heads", "3", "--causal"};
  const Json document = json_of(layer + Words{"--save", trace, "--out", out});
  EXPECT_LT(document["checks"]["ref_max_abs_diff"].get<double>(), 1e-5);
  EXPECT_EQ(io::read_npy(out).values.shape(), (std::vector<int64_t>{5, 12}));
  const io::SafetensorsFile saved(trace);
  EXPECT_EQ(saved.names(),
            (Words{"x", "q", "k", "v", "scores", "scaled", "masked", "weights", "heads", "concat", "out"}));
  // q = x W_Q + b_Q, by hand.
  const Tensor tokens = io::read_npy(x).values;
  double first = in_bias.values()[0];
  for (size_t c = 0; c < 12; ++c) first += static_cast<double>(tokens.values()[c]) * in_weight.values()[c];
  EXPECT_NEAR(saved.read("q").values.values()[0], first, 1e-5);
  // out = concat W_O + b_O, by hand.
  double last = out_bias.values()[11];
  for (size_t c = 0; c < 12; ++c) {
    last += static_cast<double>(saved.read("concat").values.values()[4 * 12 + c]) * out_weight.values()[11 * 12 + c];
  }
  EXPECT_NEAR(io::read_npy(out).values.values()[59], last, 1e-5);
  const Json heads = json_of(
      {"attend", "--q", trace + ":q", "--k", trace + ":k", "--v", trace + ":v", "--layout", "bthd", "--causal"});
  EXPECT_EQ(step_of(heads, "heads")["data"], step_of(document, "heads")["data"]);

  const Json short_one = json_of(layer + Words{"--no-out"});
  EXPECT_EQ(short_one["steps"].back()["name"], "concat");
}

TEST(Attend, CrossAttentionTakesAContextOfAnotherWidth) {
  const Files files;
  const Tensor q = drawn({8, 6}, 1), k = drawn({8, 5}, 2), v = drawn({6, 5}, 3);
  const std::string weights = files.file("w.safetensors");
  io::write_safetensors(weights, {{"q_proj_weight", &q}, {"k_proj_weight", &k}, {"v_proj_weight", &v}});
  const Json document = json_of({"attend", "--x", files.npy("x.npy", drawn({2, 3, 6}, 4)), "--context",
                                 files.npy("c.npy", drawn({2, 4, 5}, 5)), "--weights", weights, "--heads", "2"});
  EXPECT_EQ(document["sizes"]["d_v"], 3);
  EXPECT_EQ(document["sizes"]["width_context"], 5);
  EXPECT_EQ(document["steps"].back()["name"], "concat");
  EXPECT_LT(document["checks"]["ref_max_abs_diff"].get<double>(), 1e-5);
}

TEST(Attend, LongSequencesShowTheirFirstRowsUnlessAsked) {
  const Files files;
  const Words flags = files.qkv({2, 1024, 8}, {2, 1024, 8}, {2, 1024, 8});
  const Result result = heed(flags + Words{"--json"});
  EXPECT_EQ(result.exit, kOk);
  EXPECT_EQ(
      result.err,
      "heed: warning: rows 0:4 of 1024 are shown\n  hint: --rows a:b shows others; the checks cover what is shown\n");
  const Json document = Json::parse(result.out);
  EXPECT_EQ(step_of(document, "weights")["shape"], Json({1, 2, 4, 1024}));
  EXPECT_EQ(document["checks"]["visible_pairs"], 2 * 1024 * 1024);
  const Result asked = heed(flags + Words{"--rows", "1020:1024"});
  EXPECT_EQ(asked.err, "");
  EXPECT_NE(asked.out.find("rows 1020:1024"), std::string::npos);
  // k and v are not narrowed by rows: large ones are left out of JSON unless named.
  const Words large = files.qkv({1, 9000, 8}, {1, 9000, 8}, {1, 9000, 8}) + Words{"--rows", "0:1"};
  EXPECT_EQ(step_of(json_of(large), "k")["omitted"], "72000 numbers");
  EXPECT_EQ(numbers(json_of(large + Words{"--step", "k"}), "k").size(), 72000U);
}

TEST(Attend, StepsChooseWhatIsShown) {
  const Files files;
  const Json document = json_of(files.qkv({2, 4}, {2, 4}, {2, 4}) + Words{"--step", "weights,q"});
  ASSERT_EQ(document["steps"].size(), 2U);
  EXPECT_EQ(document["steps"][0]["name"], "q");
  EXPECT_TRUE(document["checks"].contains("row_sum_max_err"));
}

TEST(Attend, WritesThePageInsteadOfText) {
  const Files files;
  const std::string page = files.file("page.html");
  const Result result = heed({"attend", "--example", "cats", "--html", page});
  EXPECT_EQ(result.exit, kOk) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_NE(test::bytes_of(page).find("heed/attend@1"), std::string::npos);
}

TEST(Attend, ListsTheExamples) {
  const Result result = heed({"attend", "--list"});
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 12);
  EXPECT_NE(result.out.find("\ncats         encoder-decoder"), std::string::npos);
  const Json document = json_of({"attend", "--list"});
  EXPECT_EQ(document.begin().key(), "schema");
  EXPECT_EQ(document["schema"], "heed/attend-list@1");
  ASSERT_EQ(document["examples"].size(), 12U);
  for (const Json& each : document["examples"]) {
    EXPECT_NE(result.out.find(each["about"].get<std::string>() + "\n"), std::string::npos);
    EXPECT_EQ(json_of({"attend", "--example", each["name"], "--step", "weights"})["example"], each["name"]);
  }
}

TEST(Attend, DigitsAndWidthShapeTheText) {
  EXPECT_NE(heed({"attend", "--example", "cats", "--digits", "2"}).out.find("0.21  0.32  0.47"), std::string::npos);
  Surroundings narrow;
  narrow.terminal.width = 60;
  std::istringstream lines(heed({"attend", "--example", "eight-heads", "--step", "q,out"}, narrow).out);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; }), 62) << line;
  }
}

TEST(Attend, ALayerOfARealSizeFitsOnAFewScreens) {
  Surroundings usual;
  usual.terminal.width = 80;
  const std::string text = heed({"attend", "--example", "eight-heads"}, usual).out;
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 150);
  EXPECT_NE(text.find("[1, 4, 8, 128]\n  the heads side by side\n    I          -0.2827"), std::string::npos) << text;
}

TEST(Attend, NarrowTerminalsAreKeptWithinAndNothingTrails) {
  for (const int width : {40, 80}) {
    Surroundings narrow;
    narrow.terminal.width = width;
    for (const auto& [name, about] : explain::example_names()) {
      std::istringstream lines(heed({"attend", "--example", name, "--top-k", "2", "--grad"}, narrow).out);
      for (std::string line; std::getline(lines, line);) {
        EXPECT_LE(columns_of(line), width) << name << ": " << line;
        EXPECT_FALSE(line.ends_with(' ')) << name << ": '" << line << "'";
      }
    }
  }
}

TEST(Attend, InAsciiThereIsNothingElseAndColumnsStayInLine) {
  Surroundings ascii;
  ascii.terminal.utf8 = false;
  const std::string text = heed({"attend", "--example", "three-masks"}, ascii).out;
  for (const char byte : text) EXPECT_GE(byte, 0);
  EXPECT_NE(text.find("    I     0.1500    -inf    -inf\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace heed::cli
