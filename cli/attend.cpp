// heed attend: every step of an attention, with formula, shapes and numbers.
#include <algorithm>
#include <memory>
#include <ostream>

#include "cli/command_line.h"
#include "cli/subcommands.h"
#include "heed/core/suggest.h"
#include "heed/explain/attend.h"
#include "heed/explain/attend_json.h"
#include "heed/explain/attend_text.h"
#include "heed/explain/examples.h"

namespace heed::cli {
namespace {

struct AttendFlags {
  std::string example;
  bool list = false;
  bool json = false;
  bool causal = false;
  bool no_out = false;
  std::vector<std::string> steps;
  int digits = 4;
};

explain::AttendCase example_of(const std::string& name) {
  std::vector<std::string> names;
  for (const explain::ExampleName& each : explain::example_names()) names.push_back(each.name);
  if (std::find(names.begin(), names.end(), name) != names.end()) return explain::example(name);
  const std::string near = did_you_mean(name, names);
  throw CommandError("usage.unknown_example", "unknown example '" + name + "'",
                     (near.empty() ? "" : near + " ") + "heed attend --list shows them all");
}

void run_attend(const AttendFlags& flags, Streams streams) {
  if (flags.list) {
    for (const auto& [name, about] : explain::example_names()) {
      streams.out << name << std::string(13 - name.size(), ' ') << about << "\n";
    }
    return;
  }
  explain::AttendCase given = example_of(flags.example);
  if (flags.causal) given.causal = true;
  if (flags.no_out) given.layer.out = given.layer.out_bias = Tensor();
  explain::AttendRequest request;
  request.steps = flags.steps;
  const explain::Walkthrough walkthrough = explain::attend(given, request);
  if (flags.json) {
    streams.out << explain::attend_json(given, request, walkthrough);
  } else {
    explain::TextStyle style;
    style.digits = flags.digits;
    streams.out << explain::attend_text(given, request, walkthrough, style);
  }
}

}  // namespace

void add_attend(CLI::App& app, Streams streams, std::function<void()>& action) {
  CLI::App* attend = app.add_subcommand("attend", "every step of an attention: formula, shapes and numbers");
  const auto flags = std::make_shared<AttendFlags>();
  attend->add_option("--example", flags->example, "a built-in example; --list shows them");
  attend->add_flag("--list", flags->list, "the built-in examples, one line each");
  attend->add_flag("--causal", flags->causal, "a query sees keys up to its own position");
  attend->add_flag("--no-out", flags->no_out, "stop at concat");
  attend->add_option("--step", flags->steps, "only these steps")->delimiter(',');
  attend->add_option("--digits", flags->digits, "digits behind the point");
  attend->add_flag("--json", flags->json, "one JSON document, schema heed/attend@1");
  attend->callback([=, &action] { action = [=] { run_attend(*flags, streams); }; });
}

}  // namespace heed::cli
