#include "cli/compute_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/command_line.h"
#include "cli/option_table.h"
#include "cli/usage_error.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/isa.h"

namespace heed::cli {
namespace {

constexpr int kMostThreads = 1024;

// Of the instruction sets that Heed has kernels for, the widest first.
std::vector<std::string> isa_names() {
  std::vector<std::string> names;
  for (const Isa each : {Isa::avx512, Isa::avx2, Isa::baseline}) names.emplace_back(isa_name(each));
  return names;
}

}  // namespace

void add_compute_flags(CLI::App& command, ComputeFlags& flags, const std::string& threads_about) {
  command.add_option("--threads", flags.threads, threads_about);
  known_names(command.add_option("--isa", flags.isa, "instruction set (default: the CPU's best)"), isa_names);
}

void check_threads(const ComputeFlags& flags) {
  if (flags.threads && (*flags.threads < 1 || *flags.threads > kMostThreads)) {
    throw CommandError("usage.threads", "--threads is " + std::to_string(*flags.threads),
                       "give 1 to " + std::to_string(kMostThreads));
  }
}

void use_isa(const ComputeFlags& flags) {
  if (flags.isa.empty()) return;
  for (const Isa each : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (isa_name(each) != flags.isa) continue;
    const auto& has = supported_isas();
    if (std::find(has.begin(), has.end(), each) == has.end()) {
      throw CommandError("usage.isa_not_here", "this CPU has no " + flags.isa,
                         "its best is " + std::string(isa_name(has.back())));
    }
    return set_isa(each);
  }
  throw CommandError("usage.unknown_isa", "unknown instruction set '" + flags.isa + "'",
                     hint_of_names(flags.isa, isa_names()));
}

void use_compute_flags(const ComputeFlags& flags) {
  check_threads(flags);
  use_isa(flags);
  if (flags.threads) set_threads(*flags.threads);
}

}  // namespace heed::cli
