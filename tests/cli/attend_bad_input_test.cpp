// What `heed attend` refuses: exit code, message and hint, and no file left behind.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cli/attend_files.h"

namespace heed::cli {
namespace {

using Words = std::vector<std::string>;

// The exit code, and texts that standard error must have.
void expect_refusal(const Words& arguments, int exit, const Words& parts) {
  const Result result = heed(arguments);
  EXPECT_EQ(result.exit, exit) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err.rfind("heed: error: ", 0), 0U) << result.err;
  for (const std::string& part : parts)
    EXPECT_NE(result.err.find(part), std::string::npos) << part << "\n" << result.err;
}

TEST(AttendBadInput, NothingOrTooMuchToAttendTo) {
  const Files files;
  const std::string q = files.npy("q.npy", drawn({2, 4}, 1));
  expect_refusal({"attend"}, kUsage, {"needs something to attend to", "--example NAME"});
  expect_refusal({"attend", "--example", "cats", "--q", q}, kUsage, {"--example brings its own tensors"});
  expect_refusal({"attend", "--q", q, "--k", q}, kUsage, {"--v is missing"});
  expect_refusal({"attend", "--q", q, "--k", q, "--v", q, "--x", q}, kUsage, {"exclude each other"});
  expect_refusal({"attend", "--x", q}, kUsage, {"--weights is missing"});
  expect_refusal({"attend", "--x", q, "--weights", q}, kUsage, {"--heads is missing"});
  expect_refusal({"attend", "--weights", q}, kUsage, {"--x is missing"});
  expect_refusal({"attend", "--example", "cats", "--heads", "2"}, kUsage, {"an example has its own"});
  expect_refusal({"attend", "--example", "cats", "--no-out"}, kUsage, {"no W_O to leave out"});
  expect_refusal({"attend", "--example", "cats", "--d-out", q}, kUsage, {"add --grad"});
}

TEST(AttendBadInput, UnknownNames) {
  expect_refusal({"attend", "--example", "cat"}, kUsage, {"unknown example 'cat'", "did you mean 'cats'?", "--list"});
  expect_refusal({"attend", "--example", "cats", "--step", "wieghts"}, kUsage,
                 {"unknown step 'wieghts'", "did you mean 'weights'?"});
  expect_refusal({"attend", "--example", "cats", "--step", "capped"}, kUsage,
                 {"does not take the step 'capped'", "its steps are q, k, v"});
  expect_refusal({"attend", "--example", "cats", "--normalizer", "relu"}, kUsage, {"--normalizer"});
}

TEST(AttendBadInput, RowsHeadsAndDigits) {
  for (const char* rows : {"0:9", "2:1", "-1:1", "a:b", "1:1", "2"}) {
    expect_refusal({"attend", "--example", "cats", "--rows", rows}, kUsage, {"--rows is '", "within 0:2"});
  }
  expect_refusal({"attend", "--example", "cats", "--head", "1"}, kUsage,
                 {"--head is 1, but there is 1 head", "leave it out"});
  expect_refusal({"attend", "--example", "cats", "--digits", "10"}, kUsage, {"--digits"});
  expect_refusal({"attend", "--example", "cats", "--top-k", "0"}, kUsage, {"--top-k"});
}

TEST(AttendBadInput, FilesThatAreNotThereOrNotWhole) {
  const Files files;
  const std::string q = files.npy("q.npy", drawn({2, 4}, 1));
  const auto with = [&](const std::string& k) { return Words{"attend", "--q", q, "--k", k, "--v", q}; };
  expect_refusal(with(files.file("none.npy")), kBadData, {"none.npy"});
  expect_refusal(with(files.path()), kBadData, {files.path()});
  expect_refusal(with(files.file("magic.npy", "not an npy file at all, really")), kBadData, {"magic.npy"});
  const std::string whole = test::bytes_of(q);
  expect_refusal(with(files.file("cut.npy", whole.substr(0, whole.size() - 5))), kBadData, {"cut.npy"});
  expect_refusal(with(files.file("head.npy", whole.substr(0, 9))), kBadData, {"head.npy"});
  std::string big_endian = whole;
  big_endian.replace(big_endian.find("<f4"), 3, ">f4");
  expect_refusal(with(files.file("big.npy", big_endian)), kBadData, {"big.npy"});
  std::string object = whole;
  object.replace(object.find("<f4"), 3, "|O8");
  expect_refusal(with(files.file("object.npy", object)), kBadData, {"object.npy"});
  std::string larger = whole;
  larger.replace(larger.find("(2, 4)"), 6, "(9, 9)");
  expect_refusal(with(files.file("larger.npy", larger)), kBadData, {"larger.npy"});
}

TEST(AttendBadInput, ShapesThatDoNotFit) {
  const Files files;
  expect_refusal(files.qkv({2, 4}, {3, 5}, {3, 4}), kBadData, {"queries and keys must be of one width", "k.npy"});
  expect_refusal(files.qkv({2, 4}, {3, 4}, {2, 4}), kBadData, {"a value for each key"});
  expect_refusal(files.qkv({2, 4}, {1, 3, 4}, {1, 3, 4}), kBadData, {"not of one rank"});
  expect_refusal(files.qkv({3, 2, 4}, {2, 3, 4}, {2, 3, 4}), kBadData, {"must be a multiple"});
  expect_refusal(files.qkv({1, 2, 2, 4}, {1, 2, 2, 4}, {1, 2, 2, 4}), kUsage, {"rank 4", "--layout bthd"});
  expect_refusal(files.qkv({2, 4}, {2, 4}, {2, 4}) + Words{"--layout", "bthd"}, kUsage, {"--layout is for"});
  expect_refusal(files.qkv({1, 1, 1, 2, 4}, {1, 1, 1, 2, 4}, {1, 1, 1, 2, 4}), kBadData, {"rank 5"});
  expect_refusal(files.qkv({7}, {7}, {7}), kBadData, {"rank 1"});
  expect_refusal(files.qkv({2, 3, 32}, {2, 3, 32}, {2, 3, 32}) + Words{"--heads", "5"}, kBadData,
                 {"heads 5 does not divide the width 32 (32/5 = 6.4)", "these do: 1, 2, 4, 8, 16, 32"});
}

TEST(AttendBadInput, WeightsThatDoNotFit) {
  const Files files;
  const Tensor in = drawn({36, 12}, 1), other = drawn({5, 5}, 2), bias = drawn({7}, 3);
  const std::string x = files.npy("x.npy", drawn({4, 12}, 4)), narrow = files.npy("narrow.npy", drawn({4, 10}, 4)),
                    weights = files.file("w.safetensors");
  io::write_safetensors(weights, {{"in_proj_weight", &in}});
  const auto run = [&](const std::string& tokens, const std::string& heads) {
    return Words{"attend", "--x", tokens, "--weights", weights, "--heads", heads};
  };
  expect_refusal(run(x, "5"), kBadData, {"heads 5 does not divide the width 12", "w.safetensors"});
  expect_refusal(run(narrow, "3"), kBadData, {"width 10, but W_Q takes 12", "narrow.npy"});
  expect_refusal(run(x, "0"), kUsage, {"--heads is 0"});
  io::write_safetensors(weights, {{"in_proj_weight", &in}, {"in_proj_bias", &bias}});
  expect_refusal(run(x, "3"), kBadData, {"in_proj_bias has 7 values for 36 outputs"});
  io::write_safetensors(weights, {{"in_proj_weight", &in}, {"out_proj.weight", &other}});
  expect_refusal(run(x, "3"), kBadData, {"out_proj.weight has shape [5, 5]", "width 12"});
  io::write_safetensors(weights, {{"in_proj_weight", &in}, {"q_proj_weight", &in}});
  expect_refusal(run(x, "3"), kBadData, {"both in_proj_weight and q_proj_weight", "w.safetensors"});
  io::write_safetensors(weights, {{"in_proj_weight", &in}, {"bias_k", &bias}, {"bias_v", &bias}});
  expect_refusal(run(x, "3"), kBadData, {"bias_k and bias_v", "add_bias_kv"});
  io::write_safetensors(weights, {{"something", &in}});
  expect_refusal(run(x, "3"), kBadData, {"neither in_proj_weight nor", "it has something"});
  expect_refusal({"attend", "--x", x, "--weights", files.file("w.bin", "xx"), "--heads", "3"}, kBadData, {"w.bin"});
}

TEST(AttendBadInput, TheHintOfAFileIsShownOnce) {
  const Files files;
  const Tensor in = drawn({36, 12}, 1);
  io::write_safetensors(files.file("w.safetensors"), {{"something", &in}});
  const std::string x = files.npy("x.npy", drawn({4, 12}, 4));
  const Result result = heed({"attend", "--x", x, "--weights", files.file("w.safetensors"), "--heads", "3"});
  const size_t first = result.err.find("it has something");
  EXPECT_NE(first, std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("it has something", first + 1), std::string::npos) << result.err;
}

TEST(AttendBadInput, MasksThatContradictOrDoNotFit) {
  const Files files;
  const Words qkv = files.qkv({2, 4}, {3, 4}, {3, 4});
  const std::string small = files.npy("small.npy", Tensor({2, 2})), half = files.npy("half.npy", drawn({2, 3}, 5)),
                    fits = files.npy("fits.npy", Tensor({2, 3}));
  expect_refusal(qkv + Words{"--keep", fits, "--block", fits}, kUsage, {"--keep and --block contradict each other"});
  expect_refusal(qkv + Words{"--keep", small}, kBadData,
                 {"--keep has shape [2, 2], but there are 2 queries and 3 keys", "small.npy"});
  expect_refusal(qkv + Words{"--block", half}, kBadData, {"a mask holds 0 and 1", "--bias"});
  const std::string tenth = files.npy("tenth.npy", tensor_of({2, 3}, {0, 1, 0.1F, 0, 0, 0}));
  expect_refusal(qkv + Words{"--keep", tenth}, kBadData, {"--keep holds 0.1; a mask", "tenth.npy"});
  expect_refusal(qkv + Words{"--bias", small}, kBadData, {"the bias has shape [2, 2]"});
  expect_refusal(qkv + Words{"--causal"}, kUsage, {"2 queries stand among 3 keys", "--align bottom-right"});
  expect_refusal(qkv + Words{"--window", "1,1"}, kUsage, {"--align bottom-right"});
  expect_refusal(qkv + Words{"--alibi"}, kUsage, {"--align bottom-right"});
  expect_refusal(qkv + Words{"--align", "top-left"}, kUsage, {"nothing asks"});
  for (const char* window : {"3", "a,b", "-1,2", "1,2,3", ",", "1.5,2"}) {
    expect_refusal(qkv + Words{"--align", "top-left", std::string("--window=") + window}, kUsage, {"give L,R"});
  }
  expect_refusal(qkv + Words{"--lengths", "1,2"}, kUsage, {"--lengths has 2 numbers, but there is 1 item"});
  expect_refusal(qkv + Words{"--lengths", "4"}, kUsage, {"--lengths has 4, but there are 3 keys"});
}

TEST(AttendBadInput, OptionsThatContradictOrAreNoNumbers) {
  const Files files;
  const Words qkv = files.qkv({2, 4}, {2, 4}, {2, 4});
  const std::string sink = files.npy("sink.npy", drawn({1}, 5)), two = files.npy("two.npy", drawn({2}, 5));
  expect_refusal(qkv + Words{"--sink", sink, "--normalizer", "sigmoid"}, kUsage, {"leave one of them out"});
  expect_refusal(qkv + Words{"--sink", two}, kBadData, {"the sinks have shape [2], but there is 1 head"});
  expect_refusal(qkv + Words{"--softcap", "0"}, kUsage, {"--softcap is 0\n"});
  expect_refusal(qkv + Words{"--scale", "nan"}, kUsage, {"--scale is not finite"});
  expect_refusal(qkv + Words{"--scale", "x"}, kUsage, {"--scale"});
  expect_refusal(qkv + Words{"--no-out"}, kUsage, {"--no-out"});
  expect_refusal(qkv + Words{"--kv-heads", "2"}, kUsage, {"has no heads"});
  expect_refusal(qkv + Words{"--grad", "--d-out", two}, kBadData, {"the gradient has shape [2]"});
}

TEST(AttendBadInput, PathsThatCannotBeWrittenLeaveNothing) {
  const Files files;
  const std::string nowhere = files.file("no/such/directory/y.npy");
  for (const char* flag : {"--out", "--save", "--html"}) {
    const Result result = heed({"attend", "--example", "cats", flag, nowhere});
    EXPECT_NE(result.exit, kOk) << flag;
    EXPECT_EQ(result.out, "") << flag;
    EXPECT_NE(result.err.find("y.npy"), std::string::npos) << result.err;
  }
  const std::string one = files.file("one");
  expect_refusal({"attend", "--example", "cats", "--html", one, "--out", one}, kUsage,
                 {"--out and --html name the same file", one});
  EXPECT_TRUE(files.names().empty());
}

TEST(AttendBadInput, OutputsThatAreOneFileAreRefusedUnderAnyName) {
  const Files files;
  const Words run = files.qkv({2, 4}, {2, 4}, {2, 4});
  const std::string a = files.file("a"), dotted = files.file("./a");
  expect_refusal(run + Words{"--out", a, "--save", dotted}, kUsage, {"--out and --save name the same file", dotted});
  expect_refusal(run + Words{"--html", a, "--save", dotted}, kUsage, {"--save and --html name the same file"});
  std::filesystem::create_symlink(files.file("q.npy"), files.file("link"));
  const std::string old = test::bytes_of(files.file("q.npy"));
  for (const char* flag : {"--out", "--save", "--html"}) {
    for (const char* name : {"q.npy", "./q.npy", "link"}) {
      expect_refusal(run + Words{flag, files.file(name)}, kUsage,
                     {std::string(flag) + " would replace the file that --q reads", "another file"});
    }
    expect_refusal(run + Words{"--bias", files.file("none.npy"), flag, files.file("./none.npy")}, kUsage, {"--bias"});
  }
  const Tensor weights = drawn({36, 12}, 1);
  io::write_safetensors(files.file("w.safetensors"), {{"layer.in_proj_weight", &weights}});
  expect_refusal({"attend", "--x", files.npy("x.npy", drawn({4, 12}, 4)), "--weights",
                  files.file("w.safetensors:layer."), "--heads", "3", "--save", files.file("w.safetensors")},
                 kUsage, {"--save would replace the file that --weights reads"});
  EXPECT_EQ(test::bytes_of(files.file("q.npy")), old);
  EXPECT_EQ(files.names(), (Words{"k.npy", "link", "q.npy", "v.npy", "w.safetensors", "x.npy"}));
}

// Before any work: the example does not exist, and is not asked for.
TEST(AttendBadInput, OutputsThatCannotBeWrittenAreRefusedBeforeWork) {
  const Files files;
  const std::string read_only = files.file("old", "text"), link = files.file("link");
  std::filesystem::permissions(read_only, std::filesystem::perms::owner_read);
  std::filesystem::create_symlink("nowhere", link);
  for (const char* flag : {"--out", "--save", "--html"}) {
    expect_refusal({"attend", "--example", "none", flag, read_only}, kBadData, {"read-only", "chmod u+w"});
    expect_refusal({"attend", "--example", "none", flag, link}, kBadData, {"symbolic link", "nowhere"});
    expect_refusal({"attend", "--example", "none", flag, files.file("no/y")}, kBadData, {"no directory", "mkdir -p"});
  }
  EXPECT_EQ(test::bytes_of(read_only), "text");
}

TEST(AttendBadInput, MatricesBeyondAGigabyteAreALimit) {
  const Files files;
  const Words qkv = files.qkv({1, 20000, 1}, {1, 20000, 1}, {1, 20000, 1});
  expect_refusal(qkv + Words{"--rows", ":"}, kLimit,
                 {"would need 6.4 GB (1 heads x 20000 x 20000", "the limit is 1.0 GB", "--rows a:b"});
}

// Estimated before the work: this would take a minute to compute and write.
TEST(AttendBadInput, PagesBeyond64MegabytesAreALimit) {
  const Files files;
  const std::string page = files.file("page.html");
  const Words qkv = files.qkv({1, 9000, 1}, {1, 9000, 1}, {1, 9000, 1});
  expect_refusal(qkv + Words{"--rows", ":6000", "--html", page}, kLimit,
                 {"the page would hold about 1.9 GB (1 head x 6000 rows x 9000 keys a step)", "the limit is 64 MB",
                  "--rows a:b, --head h and --step name narrow it", "about 177 rows fit, as --rows 0:177"});
  // Two bytes a number would fit, so it is computed and measured.
  const Result measured = heed(qkv + Words{"--rows", "7:307", "--html", page, "--out", files.file("out.npy")});
  EXPECT_EQ(measured.exit, kLimit) << measured.err;
  EXPECT_NE(measured.err.find(" MB (1 head x 300 rows x 9000 keys a step)"), std::string::npos) << measured.err;
  EXPECT_EQ(measured.err.find("hold about"), std::string::npos) << measured.err;
  EXPECT_NE(measured.err.find("as --rows 7:"), std::string::npos) << measured.err;
  EXPECT_EQ(files.names(), (Words{"k.npy", "q.npy", "v.npy"})) << "refused before anything is written";
  EXPECT_EQ(heed(qkv + Words{"--rows", "0:100", "--html", page}).exit, kOk);
}

}  // namespace
}  // namespace heed::cli
