// heed bench: how fast attention is here, as a share of what the machine can do.
#include <algorithm>
#include <istream>
#include <memory>
#include <optional>
#include <ostream>

#include "bench/attention_bench.h"
#include "bench/decode_bench.h"
#include "bench/matmul_bench.h"
#include "bench/probe.h"
#include "cli/command_line.h"
#include "cli/subcommands.h"
#include "heed/core/suggest.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/isa.h"

namespace heed::cli {
namespace {

constexpr int kMostThreads = 1024;
constexpr const char* kIsaHelp = "instruction set: avx512, avx2 or baseline (default: the CPU's best)";

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
  command.add_option("--threads", flags.threads,
                     "threads of every row (default: 1, and all cores for rows that say so)");
  command.add_option("--isa", flags.isa, kIsaHelp);
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

void check_threads(const std::optional<int>& count) {
  if (count && (*count < 1 || *count > kMostThreads)) {
    throw CommandError("usage.threads", "--threads is " + std::to_string(*count),
                       "give 1 to " + std::to_string(kMostThreads));
  }
}

void check_flags(const BenchFlags& flags) {
  check_threads(flags.threads);
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
  if (chosen.empty()) {
    throw CommandError("usage.no_rows", "no row has '" + selection.matching + "' in its name", see_list);
  }
  return chosen;
}

// Shows the selected cases; all of them where nothing was selected.
template <class Case>
void list(const std::vector<Case>& cases, const bench::Selection& selection, const std::string& command,
          std::ostream& out) {
  const bool all = selection.names.empty() && selection.matching.empty() && !selection.quick;
  for (const Case& each : all ? cases : selected(cases, selection, command)) {
    out << each.label.group << "  " << each.label.name << "\n";
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
  if (flags.list) return list(all, flags.selection, command, streams.out);
  const std::vector<Case> cases = selected(all, flags.selection, command);
  use_isa(flags.isa);
  bench::BenchOptions options;
  options.threads = flags.threads.value_or(1);
  options.all_threads = flags.threads.value_or(threads());
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

struct ProbeFlags {
  std::optional<int> threads;
  std::string isa;
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
  check_threads(flags.threads);
  use_isa(flags.isa);
  set_threads(flags.threads.value_or(1));
  if (!flags.each_line) return write_probe(flags, streams.out);
  for (std::string line; std::getline(streams.in, line);) write_probe(flags, streams.out);
}

void add_probe(CLI::App& bench, Streams streams, std::function<void()>& action) {
  CLI::App* probe =
      bench.add_subcommand("probe", "what the machine can do at this moment: the yardstick of the others");
  const auto flags = std::make_shared<ProbeFlags>();
  probe->add_option("--threads", flags->threads, "threads at once (default: 1)");
  probe->add_option("--isa", flags->isa, kIsaHelp);
  probe->add_flag("--each-line", flags->each_line, "one probe for each line of standard input");
  probe->add_flag("--json", flags->json, "one JSON object a probe, schema heed/bench-probe@1");
  probe->callback([=, &action] { action = [=] { run_probe(*flags, streams); }; });
}

}  // namespace

void add_bench(CLI::App& app, Streams streams, std::function<void()>& action) {
  CLI::App* bench = app.add_subcommand("bench", "measure speed as shares of what this machine can do");
  bench->require_subcommand(1);
  const auto add = [&](const char* name, const char* about, auto run) {
    CLI::App* command = bench->add_subcommand(name, about);
    const auto flags = std::make_shared<BenchFlags>();
    add_flags(*command, *flags);
    command->callback([=, &action] { action = [=] { run(*flags, streams); }; });
  };
  add("attention", "attention, forward and backward; --case memory: its memory", run_attention);
  add("decode", "one query a sequence against a cache, beside a plain read of it", run_decode);
  add("matmul", "matrix products, beside OpenBLAS", run_matmul);
  add_probe(*bench, streams, action);
}

}  // namespace heed::cli
