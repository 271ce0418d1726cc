// heed check: grades a worked example of attention, number by number.
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"
#include "cli/subcommands.h"
#include "heed/explain/check_file.h"
#include "heed/explain/check_json.h"
#include "heed/explain/check_text.h"

namespace heed::cli {
namespace {

constexpr const char* kFooter =
    R"(A check file is TOML: the inputs by their names, then a table [claimed] with
any steps as somebody wrote them:

  title = "two tokens, one head"
  x   = [[1.0, 0.0], [0.5, 1.0]]
  W_Q = [[1.0, 0.5], [0.0, 1.0]]        # row vectors times matrices: q = x W_Q
  W_K = [[0.5, 0.0], [0.5, 1.0]]
  W_V = [[1.0, 2.0], [3.0, 4.0]]
  mask = "causal"

  [claimed]
  scores  = [["?", "?"], [0.25, 1.62]]  # "?": a number that is not there
  weights = [[1, 0], [0.27, 0.73]]
  heads   = [[], [2.8, 4.1]]            # []: a row that is not there

Inputs:
  x, context, W_Q, W_K, W_V, W_O, b_Q, b_K, b_V, b_O; or q, k and v;
  or scores or scaled, with v; or weights, with v; or concat, with W_O
Settings:
  title, source; heads, kv_heads; scale, or d_k for 1/√d_k; softcap; bias;
  alibi; sinks; normalizer = "softmax" or "sigmoid";
  mask = "causal" or [[0, -inf], [0, 0]]; align = "bottom-right" or "top-left";
  window = [left, right]; lengths; keep or block = [[1, 0], [1, 1]]
Claims:
@claims@Several heads:
  [H][T][D] for q, k, v and heads, or the heads side by side, [T][H·D];
  [H][Tq][Tk] from scores to weights

Each claimed number has a unit u, one of its last written digit: 0.01 for 0.50.
It is
  right    within u/2 of the exact value
  cut      less than u away, towards zero: digits were dropped
  near     within 2u: something before it had been rounded
  follows  else, where it is what the claimed steps before it give, and those
           have the slip
  wrong    else; with the exact value, and exit code 6
docs/check-files.md has it all.

Examples:
  heed check examples/notes/cats.toml
  heed check exam.toml --json)";

// The footer, with the names of the steps that can be claimed.
std::string footer() {
  std::vector<std::string> names{"the inputs"};
  for (const AttentionStep step : all_steps()) {
    if (!explain::is_input(step) && explain::is_explained(step)) names.emplace_back(step_name(step));
  }
  std::string text = kFooter;
  constexpr std::string_view kPlace = "@claims@";
  explain::TextStyle style;
  style.width = 80;
  return text.replace(text.find(kPlace), kPlace.size(), explain::wrapped(explain::joined(names, ", "), "  ", 2, style));
}

struct CheckFlags {
  std::string file;
  bool json = false;
};

void run_check(const CheckFlags& flags, const Streams& streams) {
  const explain::WorkedExample example = explain::read_check_file(flags.file);
  const explain::Grading grading = explain::grade(example);
  streams.out << (flags.json ? explain::check_json(flags.file, example, grading)
                             : explain::check_text(flags.file, example, grading, style_of(streams.out_terminal)));
  if (grading.count(explain::Verdict::wrong) > 0) throw ExitWith{kCheckFailed};
}

}  // namespace

void add_check(CLI::App& app, Streams streams, std::function<void()>& action) {
  CLI::App* check = app.add_subcommand("check", "grade a worked example from a textbook, slides or an exam");
  const auto flags = std::make_shared<CheckFlags>();
  check->add_option("FILE", flags->file, "the check file, in TOML")->required();
  check->add_flag("--json", flags->json, "one JSON document, schema heed/check@1");
  check->footer(footer());
  check->callback([=, &action] { action = [=] { run_check(*flags, streams); }; });
}

}  // namespace heed::cli
