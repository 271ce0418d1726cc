#include "bench/row.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>

#include "bench/machine.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/isa.h"

namespace heed::bench {
namespace {

using Json = nlohmann::ordered_json;

// Fields of a row's table line: value, or blanks where it does not apply.
std::string field(std::optional<double> value, const char* format, size_t width) {
  char text[96];
  std::string result;
  if (value) {
    std::snprintf(text, sizeof(text), format, *value);
    result = text;
  }
  return std::string(result.size() < width ? width - result.size() : 0, ' ') + result;
}

std::optional<double> percent(std::optional<double> share) {
  return share ? std::optional<double>(100 * *share) : std::nullopt;
}

double total_seconds(const std::vector<OpTime>& profile) {
  double total = 0;
  for (const OpTime& each : profile) total += each.seconds;
  return total;
}

Json to_json(const std::vector<OpTime>& profile) {
  Json ops = Json::array();
  for (const OpTime& each : profile) {
    Json op{{"op", each.op}};
    if (!each.pass.empty()) op["pass"] = each.pass;
    op.update({{"calls", each.calls},
               {"milliseconds", 1e3 * each.seconds},
               {"of_step", each.seconds / total_seconds(profile)}});
    ops.push_back(std::move(op));
  }
  return ops;
}

Json to_json(const Row& row) {
  Json json{{"name", row.name}, {"kind", row.kind}, {"dtype", row.dtype}};
  if (row.attention) {
    const AttentionSizes& sizes = *row.attention;
    json.update({{"mask", sizes.mask},
                 {"layout", sizes.layout},
                 {"batch", sizes.batch},
                 {"heads", sizes.heads},
                 {"kv_heads", sizes.kv_heads},
                 {"dim", sizes.dim},
                 {"t_q", sizes.t_q},
                 {"t_k", sizes.t_k}});
    if (sizes.window > 0) json["window"] = sizes.window;
    if (!sizes.option.empty()) json["option"] = sizes.option;
    if (sizes.width > 0) json.update({{"width", sizes.width}, {"packed", sizes.packed}});
  }
  if (row.matmul) {
    json.update({{"m", row.matmul->m}, {"n", row.matmul->n}, {"k", row.matmul->k}, {"packed", row.matmul->packed}});
  }
  json["threads"] = row.threads;
  json["isa"] = row.isa;
  if (row.measured) {
    const Measurement& measured = *row.measured;
    json.update({{"milliseconds", 1e3 * measured.seconds},
                 {"gflops", measured.gflops},
                 {"peak_gflops", measured.peak_gflops},
                 {"of_peak", measured.of_peak}});
    if (measured.gbps > 0) json["gbps"] = measured.gbps;
    json.update({{"repetitions", measured.repetitions}, {"repeated", measured.repeated}, {"busy", measured.busy}});
  }
  if (row.read_gbps) json["read_gbps"] = *row.read_gbps;
  if (row.of_read) json["of_read"] = *row.of_read;
  if (row.of_openblas) json["of_openblas"] = *row.of_openblas;
  if (row.of_base) json.update({{"base", row.base}, {"of_base", *row.of_base}});
  if (row.megabytes) json["megabytes"] = *row.megabytes;
  if (row.allocations) json["allocations"] = *row.allocations;
  if (!row.profile.empty()) json["profile"] = to_json(row.profile);
  return json;
}

}  // namespace

std::string to_json_line(const Probe& probe) {
  return Json{{"schema", "heed/bench-probe@1"}, {"isa", isa_name(isa())},       {"threads", threads()},
              {"gflops", probe.gflops},         {"read_gbps", probe.read_gbps}, {"read_share", probe.read_share}}
      .dump();
}

TextReport::TextReport(std::ostream& out) : out_(out) {
  out_ << "# " << cpu_name() << ", " << isa_name(isa()) << ", f32\n"
       << "row                                    threads        ms  GFLOP/s    peak  of peak  reps  again  beside"
       << std::endl;
}

void TextReport::add(const Row& row) {
  std::string line = row.name;
  line.resize(std::max<size_t>(line.size(), 38), ' ');
  line += field(row.threads, "%.0f", 8);
  if (row.measured) {
    const Measurement& measured = *row.measured;
    line += field(1e3 * measured.seconds, "%.3f", 10) + field(measured.gflops, "%.1f", 9) +
            field(measured.peak_gflops, "%.1f", 8) + field(100 * measured.of_peak, "%.1f %%", 9) +
            field(measured.repetitions, "%.0f", 6) + field(measured.repeated, "%.0f", 7);
  }
  if (row.of_base) line += field(row.of_base, "  %.3f", 0) + " × " + row.base;
  if (row.of_openblas) line += field(row.of_openblas, "  %.3f × OpenBLAS", 0);
  if (row.of_read) line += field(percent(row.of_read), "  %.1f %% of a plain read", 0);
  if (row.megabytes) line += field(row.megabytes, "  %.1f MB over inputs, outputs and gradients", 0);
  if (row.allocations) line += "  " + std::to_string(*row.allocations) + " allocations a step";
  if (row.measured && row.measured->busy > 0) {
    line += "  (" + std::to_string(row.measured->busy) + " in a busy phase)";
  }
  for (const OpTime& each : row.profile) {
    std::string op = "\n  " + each.op + (each.pass.empty() ? "" : " ") + each.pass;
    op.resize(std::max<size_t>(op.size(), 39), ' ');
    line += op + field(static_cast<double>(each.calls), "%.0f calls", 13) + field(1e3 * each.seconds, "%.3f", 10) +
            field(100 * each.seconds / total_seconds(row.profile), "%.1f %%", 9) + " of the step";
  }
  out_ << line << std::endl;
}

void JsonReport::finish() {
  Json rows = Json::array();
  for (const Row& row : rows_) rows.push_back(to_json(row));
  const Json document{
      {"schema", "heed/bench@1"}, {"cpu", cpu_name()}, {"isa", isa_name(isa())}, {"rows", std::move(rows)}};
  out_ << document.dump(1) << "\n";
}

}  // namespace heed::bench
