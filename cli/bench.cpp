// heed bench: how fast attention and training are here, as a share of what the machine can do.
#include <algorithm>
#include <istream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <utility>

#include "bench/attention_bench.h"
#include "bench/decode_bench.h"
#include "bench/matmul_bench.h"
#include "bench/probe.h"
#include "bench/train_bench.h"
#include "cli/command_line.h"
#include "cli/compute_flags.h"
#include "cli/option_table.h"
#include "cli/subcommands.h"
#include "heed/core/suggest.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/isa.h"

namespace heed::cli {
namespace {

// What all bench commands take.
struct BenchFlags {
  ComputeFlags compute;
  std::optional<int> repetitions;
  bench::Selection selection;
  bool list = false;
  bool json = false;
  bool profile = false;  // train only
};

void add_flags(CLI::App& command, BenchFlags& flags, std::function<std::vector<std::string>()> case_names) {
  add_compute_flags(command, flags.compute, "threads of every row (default: 1, and all cores for rows that say so)");
  command.add_flag("--quick", flags.selection.quick, "few repetitions, and no rows that take long");
  CLI::Option* cases =
      command.add_option("--case", flags.selection.names, "only rows of this name or group; may be repeated");
  cases->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  known_names(cases, std::move(case_names));
  command.add_option("--rows-matching", flags.selection.matching, "only rows with this text in their name");
  command.add_option("--repetitions", flags.repetitions, "repetitions of each row (default: 7 to 31, by time)");
  command.add_flag("--list", flags.list, "show the groups and rows, and measure nothing");
  command.add_flag("--json", flags.json, "one JSON document, schema heed/bench@1; with --list heed/bench-list@1");
}

void check_flags(const BenchFlags& flags) {
  check_threads(flags.compute);
  if (flags.repetitions && *flags.repetitions < 1) {
    throw CommandError("usage.repetitions", "--repetitions is " + std::to_string(*flags.repetitions),
                       "give 1 or more; 7 or more for a median to trust");
  }
}

// The selected cases of a table; refuses names that do not exist and selections of nothing.
template <class Case>
std::vector<Case> selected(const std::vector<Case>& cases, const bench::Selection& selection,
                           const std::string& command) {
  const std::string see_list = command + " --list shows them all";
  const std::vector<std::string> known = bench::groups_and_names(cases);
  for (const std::string& name : selection.names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string hint = did_you_mean(name, known);
    if (!hint.empty()) hint += " ";
    hint += see_list;
    throw CommandError("usage.unknown_case", "unknown case '" + name + "'", hint);
  }
  std::vector<Case> chosen = bench::select(cases, selection);
  if (chosen.empty() && selection.matching.empty()) {
    throw CommandError("usage.no_rows", "every row asked for takes too long for --quick",
                       "leave --quick away, or name single rows; " + see_list);
  }
  if (chosen.empty()) {
    throw CommandError("usage.no_rows", "no row has '" + selection.matching + "' in its name", see_list);
  }
  return chosen;
}

// Shows the selected cases; all of them where nothing was selected.
template <class Case>
void list(const std::vector<Case>& cases, const BenchFlags& flags, const std::string& command, std::ostream& out) {
  const bench::Selection& selection = flags.selection;
  const bool all = selection.names.empty() && selection.matching.empty() && !selection.quick;
  const std::vector<Case> shown = all ? cases : selected(cases, selection, command);
  if (flags.json) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const Case& each : shown) rows.push_back({{"group", each.label.group}, {"name", each.label.name}});
    out << nlohmann::ordered_json{{"schema", "heed/bench-list@1"}, {"rows", rows}}.dump(1) << "\n";
  } else {
    for (const Case& each : shown) out << each.label.group << "  " << each.label.name << "\n";
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

// Lists the selected cases, or measures them with run(cases, options, report).
template <class Case, class Run>
void run_cases(const BenchFlags& flags, Streams streams, const std::vector<Case>& all, const std::string& command,
               Run run) {
  check_flags(flags);
  if (flags.list) return list(all, flags, command, streams.out);
  const std::vector<Case> cases = selected(all, flags.selection, command);
  use_isa(flags.compute);
  bench::BenchOptions options;
  options.threads = flags.compute.threads.value_or(1);
  options.all_threads = flags.compute.threads.value_or(threads());
  options.harness = harness_options(flags);
  const auto report = make_report(flags.json, streams.out);
  run(cases, options, *report);
  report->finish();
}

void run_attention(const BenchFlags& flags, Streams streams) {
  run_cases(flags, streams, bench::attention_cases(), "heed bench attention", bench::bench_attention);
}

void run_decode(const BenchFlags& flags, Streams streams) {
  run_cases(flags, streams, bench::decode_cases(), "heed bench decode", bench::bench_decode);
}

void run_matmul(const BenchFlags& flags, Streams streams) {
  run_cases(flags, streams, bench::matmul_cases(), "heed bench matmul",
            [&](const auto& cases, const bench::BenchOptions& options, bench::Report& report) {
              const auto openblas = bench::OpenBlas::load();
              if (!openblas) {
                warn(streams, "OpenBLAS (libopenblas.so.0) is not here; rows are not compared with it",
                     "Debian and Ubuntu have it in the package libopenblas0");
              }
              bench::bench_matmul(cases, options, openblas, report);
            });
}

void run_train(const BenchFlags& flags, Streams streams) {
  run_cases(flags, streams, bench::train_cases(), "heed bench train",
            [&](const auto& cases, const bench::BenchOptions& options, bench::Report& report) {
              bench::bench_train(cases, options, flags.profile, report);
            });
}

struct ProbeFlags {
  ComputeFlags compute;
  bool json = false;
  bool each_line = false;
};

void write_probe(const ProbeFlags& flags, std::ostream& out) {
  const bench::Probe probe = bench::measure_probe();
  if (flags.json) {
    out << bench::to_json_line(probe) << std::endl;
  } else {
    out << isa_name(isa()) << ", " << threads() << (threads() == 1 ? " thread" : " threads") << ": multiply-adds "
        << probe.gflops << " GFLOP/s, reads from the first-level cache " << probe.read_gbps << " GB/s" << std::endl;
  }
}

void run_probe(const ProbeFlags& flags, Streams streams) {
  check_threads(flags.compute);
  use_isa(flags.compute);
  set_threads(flags.compute.threads.value_or(1));
  if (!flags.each_line) return write_probe(flags, streams.out);
  for (std::string line; std::getline(streams.in, line);) write_probe(flags, streams.out);
}

void add_probe(CLI::App& bench, Streams streams, std::function<void()>& action) {
  CLI::App* probe =
      bench.add_subcommand("probe", "what the machine can do at this moment: the yardstick of the others");
  const auto flags = std::make_shared<ProbeFlags>();
  add_compute_flags(*probe, flags->compute, "threads at once (default: 1)");
  probe->add_flag("--each-line", flags->each_line, "one probe for each line of standard input");
  probe->add_flag("--json", flags->json, "one JSON object a probe, schema heed/bench-probe@1");
  probe->footer("Examples:\n  heed bench probe --threads 2\n  yes | head -100 | heed bench probe --each-line --json");
  probe->callback([=, &action] { action = [=] { run_probe(*flags, streams); }; });
}

}  // namespace

void add_bench(CLI::App& app, Streams streams, std::function<void()>& action) {
  CLI::App* bench = app.add_subcommand("bench", "measure speed as shares of what this machine can do");
  bench->require_subcommand(1);
  const auto add = [&](const char* name, const char* about, auto cases, auto run) {
    CLI::App* command = bench->add_subcommand(name, about);
    const auto flags = std::make_shared<BenchFlags>();
    add_flags(*command, *flags, [cases] { return bench::groups_and_names(cases()); });
    command->footer(std::string("Examples:\n  heed bench ") + name + " --list\n  heed bench " + name + " --quick");
    command->callback([=, &action] { action = [=] { run(*flags, streams); }; });
    return std::pair(command, flags);
  };
  add("attention", "attention, forward and backward; --case memory: its memory", bench::attention_cases, run_attention);
  add("decode", "one query a sequence against a cache, beside a plain read of it", bench::decode_cases, run_decode);
  add("matmul", "matrix products, beside OpenBLAS", bench::matmul_cases, run_matmul);
  const auto [train, train_flags] =
      add("train", "whole training steps: forward, backward, clipping, AdamW", bench::train_cases, run_train);
  train->get_option("--threads")->description("threads of every row (default: a row of 1 and one of all cores)");
  train->add_flag("--profile", train_flags->profile, "show where the time of a step goes, by op");
  add_probe(*bench, streams, action);
  bench->footer("Examples:\n  heed bench attention --quick\n  heed bench matmul --case packed --threads 2 --json");
}

}  // namespace heed::cli
