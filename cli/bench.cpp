// heed bench: how fast attention is here, as a share of what the machine can do.
#include <algorithm>
#include <memory>
#include <optional>
#include <ostream>

#include "bench/attention_bench.h"
#include "cli/command_line.h"
#include "cli/subcommands.h"
#include "cli/suggest.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/isa.h"

namespace heed::cli {
namespace {

constexpr int kMostThreads = 1024;

// What all bench commands take.
struct BenchFlags {
  std::optional<int> threads;
  std::string isa;
  std::optional<int> repetitions;
  bench::Selection selection;
  bool list = false;
  bool json = false;
};

void add_flags(CLI::App& command, BenchFlags& flags) {
  command.add_option("--threads", flags.threads, "threads of every row (default: 1, and all cores for rows that say so)");
  command.add_option("--isa", flags.isa, "instruction set: avx512, avx2 or baseline (default: the CPU's best)");
  command.add_flag("--quick", flags.selection.quick, "few repetitions, and no rows that take long");
  command.add_option("--case", flags.selection.names, "only rows of this name or group; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_option("--rows-matching", flags.selection.matching, "only rows with this text in their name");
  command.add_option("--repetitions", flags.repetitions, "repetitions of each row (default: 7 to 31, by time)");
  command.add_flag("--list", flags.list, "show the groups and rows, and measure nothing");
  command.add_flag("--json", flags.json, "one JSON document, schema heed/bench@1");
}

void use_isa(const std::string& name) {
  if (name.empty()) return;
  for (const Isa each : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (isa_name(each) != name) continue;
    const auto& has = supported_isas();
    if (std::find(has.begin(), has.end(), each) == has.end()) {
      throw CommandError("usage.isa_not_here", "this CPU has no " + name,
                         "its best is " + std::string(isa_name(has.back())));
    }
    return set_isa(each);
  }
  const std::string near = did_you_mean(name, {"avx512", "avx2", "baseline"});
  throw CommandError("usage.unknown_isa", "unknown instruction set '" + name + "'",
                     near.empty() ? "give avx512, avx2 or baseline" : near);
}

void check_flags(const BenchFlags& flags) {
  if (flags.threads && (*flags.threads < 1 || *flags.threads > kMostThreads)) {
    throw CommandError("usage.threads", "--threads is " + std::to_string(*flags.threads),
                       "give 1 to " + std::to_string(kMostThreads));
  }
  if (flags.repetitions && *flags.repetitions < 1) {
    throw CommandError("usage.repetitions", "--repetitions is " + std::to_string(*flags.repetitions),
                       "give 1 or more; 7 or more for a median to trust");
  }
}

void check_cases(const bench::Selection& selection, const std::string& command, const std::vector<std::string>& known) {
  for (const std::string& name : selection.names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string near = did_you_mean(name, known);
    throw CommandError("usage.unknown_case", "unknown case '" + name + "'",
                       (near.empty() ? "" : near + " ") + command + " --list shows them all");
  }
}

bench::HarnessOptions harness_options(const BenchFlags& flags) {
  bench::HarnessOptions options;
  if (flags.selection.quick) options.repetitions = 7;
  if (flags.repetitions) options.repetitions = *flags.repetitions;
  return options;
}

std::unique_ptr<bench::Report> make_report(bool json, std::ostream& out) {
  if (json) return std::make_unique<bench::JsonReport>(out);
  return std::make_unique<bench::TextReport>(out);
}

void run_attention(const BenchFlags& flags, Streams streams) {
  check_flags(flags);
  check_cases(flags.selection, "heed bench attention", bench::attention_case_names());
  use_isa(flags.isa);
  const std::vector<bench::AttentionCase> cases = bench::select_attention_cases(flags.selection);
  if (cases.empty()) {
    throw CommandError("usage.no_rows", "no row has '" + flags.selection.matching + "' in its name",
                       "heed bench attention --list shows them all");
  }
  if (flags.list) {
    for (const bench::AttentionCase& each : cases) streams.out << each.group << "  " << each.name << "\n";
    return;
  }
  bench::AttentionBenchOptions options;
  options.all_threads = flags.threads.value_or(threads());
  options.threads = flags.threads.value_or(1);
  options.harness = harness_options(flags);
  const auto report = make_report(flags.json, streams.out);
  bench::bench_attention(cases, options, *report);
  report->finish();
}

}  // namespace

void add_bench(CLI::App& app, Streams streams, std::function<void()>& action) {
  CLI::App* bench = app.add_subcommand("bench", "measure speed as shares of what this machine can do");
  bench->require_subcommand(1);
  CLI::App* attention = bench->add_subcommand("attention", "attention, forward and backward");
  const auto flags = std::make_shared<BenchFlags>();
  add_flags(*attention, *flags);
  attention->callback([=, &action] { action = [=] { run_attention(*flags, streams); }; });
}

}  // namespace heed::cli
