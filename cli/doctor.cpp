#include "cli/doctor.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "bench/openblas.h"
#include "cli/compute_flags.h"
#include "cli/subcommands.h"
#include "heed/core/large_memory.h"
#include "heed/core/version.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/isa.h"

namespace heed::cli {
namespace {

constexpr int kSlices = 60;  // 5 ms a probe
constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kLeastRead = 16 * kMiB;
constexpr int64_t kMostRead = 512 * kMiB;
constexpr int64_t kLittleMemory = 512 * kMiB;

// Four times the last cache, so that a read is one of memory; no more than an eighth of what is available.
int64_t bytes_to_read(const bench::Machine& machine) {
  int64_t last_cache = 32 * kMiB;
  for (const bench::Cache& cache : machine.caches) last_cache = cache.bytes;
  const int64_t most = std::max(kLeastRead, std::min(kMostRead, machine.available / 8));
  return std::clamp(4 * last_cache, kLeastRead, most);
}

std::vector<Speed> measure_speeds(const bench::Machine& machine, int all_threads) {
  const int64_t count = bytes_to_read(machine) / static_cast<int64_t>(sizeof(float));
  const LargeMemory memory = allocate_large(static_cast<size_t>(count) * sizeof(float));
  auto* data = reinterpret_cast<float*>(memory.get());
  // A page that was never written is read from a cache.
  parallel_for(all_threads, [&](int64_t task, int) {
    std::fill(data + count * task / all_threads, data + count * (task + 1) / all_threads, 1.0F);
  });
  std::vector<Speed> speeds;
  for (const int count_of_threads : all_threads > 1 ? std::vector<int>{1, all_threads} : std::vector<int>{1}) {
    set_threads(count_of_threads);
    speeds.push_back({count_of_threads, bench::measure_probe(kSlices), bench::measure_memory_read(data, count)});
  }
  set_threads(all_threads);
  return speeds;
}

std::string number(double value, int digits = 3) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*g", std::max(digits, value >= 1 ? static_cast<int>(std::log10(value)) + 1 : 1),
                value);
  return text;
}

std::string in_binary_units(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= 1024 * kMiB) return number(value / (1024.0 * kMiB)) + " GiB";
  if (bytes >= kMiB) return number(value / kMiB) + " MiB";
  return number(value / 1024) + " KiB";
}

std::string counted(int count, const std::string& thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

std::string cores_text(const Examination& found) {
  const bench::Machine& machine = found.machine;
  std::string text = machine.cores > 0 ? counted(machine.cores, "core") + ", " : "";
  if (machine.logical_cpus > 0) text += counted(machine.logical_cpus, "hardware thread") + "; ";
  return text + "Heed uses " + counted(found.threads, "thread");
}

std::string isas_text(const Examination& found) {
  std::string text;
  for (const std::string& each : found.isas) {
    text += (text.empty() ? "" : ", ") + each + (each == found.isa ? " (in use)" : "");
  }
  return text;
}

std::string caches_text(const bench::Machine& machine) {
  std::string text;
  for (const bench::Cache& cache : machine.caches) {
    text += (text.empty() ? "L" : ", L") + std::to_string(cache.level) + (cache.unified ? " " : "d ") +
            in_binary_units(cache.bytes);
    if (cache.shared_by > 1) text += " for " + std::to_string(cache.shared_by) + " hardware threads";
  }
  return text.empty() ? "unknown" : text;
}

std::string memory_text(const bench::Machine& machine) {
  if (machine.memory == 0) return "unknown";
  return in_binary_units(machine.memory) + ", " + in_binary_units(machine.available) + " available";
}

// "84.5 GFLOP/s on 1 thread, 168 on 2".
template <class Figure>
std::string speeds_text(const std::vector<Speed>& speeds, const std::string& unit, Figure figure) {
  std::string text;
  for (const Speed& each : speeds) {
    text += text.empty() ? number(figure(each)) + unit + " on " + counted(each.threads, "thread")
                         : ", " + number(figure(each)) + " on " + std::to_string(each.threads);
  }
  return text;
}

std::string terminal_text(const Terminal& terminal) {
  return std::string(terminal.utf8 ? "UTF-8" : "ASCII") + (terminal.color ? ", colour, " : ", no colour, ") +
         counted(terminal.width, "column");
}

}  // namespace

Examination examine(const Terminal& terminal) {
  Examination found;
  found.machine = bench::read_machine();
  found.threads = threads();
  for (const Isa each : supported_isas()) found.isas.insert(found.isas.begin(), std::string(isa_name(each)));
  found.isa = isa_name(isa());
  found.speeds = measure_speeds(found.machine, found.threads);
  found.openblas = bench::OpenBlas::load().has_value();
#ifdef NDEBUG
  found.optimised = true;
#else
  found.optimised = false;
#endif
  found.terminal = terminal;
  return found;
}

std::vector<Problem> problems_of(const Examination& found) {
  const bench::Machine& machine = found.machine;
  std::vector<Problem> problems;
  const auto add = [&](bool holds, const std::string& what, const std::string& hint) {
    if (holds) problems.push_back({what, hint});
  };
  add(!found.optimised, "this build is not optimised", "cmake --preset release builds one that is");
  add(found.isas.front() == "baseline", "this CPU, or this build, has neither AVX-512 nor AVX2",
      "HEED_ISAS tells CMake which to build; the CPU decides among them");
  add(found.isa != found.isas.front(), found.isa + " is in use although " + found.isas.front() + " is there",
      "leave --isa out");
  add(machine.cpu_limit > 0 && machine.cpu_limit < found.threads,
      "a limit of this container allows " + number(machine.cpu_limit) + " CPUs, and Heed uses " +
          counted(found.threads, "thread"),
      "--threads " + std::to_string(std::max(1, static_cast<int>(machine.cpu_limit))));
  add(machine.logical_cpus > 0 && found.threads > machine.logical_cpus,
      "more threads than hardware threads: they take turns", "--threads " + std::to_string(machine.logical_cpus));
  add(machine.logical_cpus > 0 && machine.load > machine.logical_cpus * 0.5,
      "other programs were busy during the last minute (load " + number(machine.load) + "): the speeds are too low",
      "look again when the machine is quiet");
  add(machine.huge_pages == "never", "huge pages are off: large matrices and caches are read more slowly",
      "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled");
  add(machine.available > 0 && machine.available < kLittleMemory,
      "only " + in_binary_units(machine.available) + " of memory are available", "end programs that hold memory");
  add(!found.terminal.utf8, "the locale is not UTF-8: symbols are written in ASCII", "export LC_ALL=C.UTF-8");
  add(!found.openblas, "OpenBLAS is not here: heed bench matmul has nothing to compare with, all else does without",
      "Debian and Ubuntu have it in the package libopenblas0");
  return problems;
}

std::string to_text(const Examination& found) {
  const std::pair<const char*, std::string> lines[] = {
      {"version", std::string(kVersion)},
      {"CPU", printable(found.machine.cpu)},
      {"cores", cores_text(found)},
      {"instruction sets", isas_text(found)},
      {"caches", caches_text(found.machine)},
      {"memory", memory_text(found.machine)},
      {"huge pages", found.machine.huge_pages.empty() ? "unknown" : printable(found.machine.huge_pages)},
      {"multiply-adds",
       speeds_text(found.speeds, " GFLOP/s", [](const Speed& each) { return each.probe.gflops; }) + ", at most"},
      {"first cache reads", speeds_text(found.speeds, " GB/s", [](const Speed& each) { return each.probe.read_gbps; })},
      {"memory reads", speeds_text(found.speeds, " GB/s", [](const Speed& each) { return each.memory_gbps; })},
      {"OpenBLAS", found.openblas ? "here, for heed bench matmul to compare with" : "not here"},
      {"terminal", terminal_text(found.terminal)},
  };
  std::string text;
  for (const auto& [name, value] : lines) {
    std::string label = name;
    label.resize(19, ' ');
    text += painted(found.terminal, Paint::bold, label) + value + "\n";
  }
  const std::vector<Problem> problems = problems_of(found);
  text += "\n" + (problems.empty() ? painted(found.terminal, Paint::green, "No problems.")
                                   : painted(found.terminal, Paint::yellow,
                                             counted(static_cast<int>(problems.size()), "problem") + ":"));
  for (const Problem& each : problems) text += "\n  " + each.what + "\n    hint: " + each.hint;
  return text + "\n";
}

std::string to_json(const Examination& found) {
  using Json = nlohmann::ordered_json;
  const bench::Machine& machine = found.machine;
  const auto known = [](auto value) { return value > 0 ? Json(value) : Json(); };
  Json caches = Json::array();
  for (const bench::Cache& each : machine.caches) {
    caches.push_back({{"level", each.level},
                      {"kind", each.unified ? "unified" : "data"},
                      {"bytes", each.bytes},
                      {"shared_by", known(each.shared_by)}});
  }
  Json speeds = Json::array();
  for (const Speed& each : found.speeds) {
    speeds.push_back({{"threads", each.threads},
                      {"gflops", each.probe.gflops},
                      {"first_cache_gbps", each.probe.read_gbps},
                      {"memory_gbps", each.memory_gbps}});
  }
  Json problems = Json::array();
  for (const Problem& each : problems_of(found)) problems.push_back({{"what", each.what}, {"hint", each.hint}});
  return Json{{"schema", "heed/doctor@1"},
              {"version", kVersion},
              {"cpu", machine.cpu},
              {"cores", known(machine.cores)},
              {"hardware_threads", known(machine.logical_cpus)},
              {"cpu_limit", known(machine.cpu_limit)},
              {"load", machine.load},
              {"threads", found.threads},
              {"isas", found.isas},
              {"isa", found.isa},
              {"caches", caches},
              {"memory_bytes", known(machine.memory)},
              {"available_bytes", known(machine.available)},
              {"huge_pages", machine.huge_pages.empty() ? Json() : Json(machine.huge_pages)},
              {"speeds", speeds},
              {"openblas", found.openblas},
              {"optimised", found.optimised},
              {"terminal",
               {{"interactive", found.terminal.interactive},
                {"color", found.terminal.color},
                {"utf8", found.terminal.utf8},
                {"width", found.terminal.width}}},
              {"problems", problems}}
             .dump(1, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

void add_doctor(CLI::App& app, Streams streams, std::function<void()>& action) {
  struct Flags {
    ComputeFlags compute;
    bool json = false;
  };
  const auto flags = std::make_shared<Flags>();
  CLI::App* doctor = app.add_subcommand("doctor", "what this machine gives Heed, and what keeps it from giving more");
  add_compute_flags(*doctor, flags->compute, "threads to measure with (default: all cores)");
  doctor->add_flag("--json", flags->json, "one JSON document, schema heed/doctor@1");
  doctor->footer("Examples:\n  heed doctor\n  heed doctor --isa avx2 --threads 1 --json");
  doctor->callback([=, &action] {
    action = [=] {
      use_compute_flags(flags->compute);
      const Examination found = examine(streams.out_terminal);
      streams.out << (flags->json ? to_json(found) : to_text(found));
    };
  });
}

}  // namespace heed::cli
