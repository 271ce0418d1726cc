// heed attend: every step of an attention, with formula, shapes and numbers.
#include <algorithm>
#include <charconv>
#include <iomanip>
#include <memory>
#include <ostream>
#include <sstream>

#include "cli/attend_flags.h"
#include "cli/attend_input.h"
#include "cli/command_line.h"
#include "cli/output_files.h"
#include "cli/subcommands.h"
#include "heed/core/suggest.h"
#include "heed/explain/attend_json.h"
#include "heed/explain/attend_text.h"
#include "heed/explain/example_list.h"
#include "heed/explain/page.h"
#include "heed/io/file.h"
#include "heed/io/npy.h"
#include "heed/io/safetensors.h"

namespace heed::cli {
namespace {

using explain::AttendRequest;
using explain::AttendSizes;
using explain::Walkthrough;

// Of sequences whose matrices have more numbers than this, only the first rows are shown unless others are asked for.
constexpr int64_t kMostUnasked = int64_t{1} << 20;
constexpr int64_t kRowsUnasked = 4;
// The most bytes that the matrices of all steps may take.
constexpr int64_t kMostBytes = int64_t{1} << 30;

// "a:b", "a:", ":b", ":" or "a".
QueryRange rows_of(const std::string& text, int64_t t_q) {
  const auto refuse = [&](const std::string& message) {
    throw CommandError("usage.rows", message, "give a:b within 0:" + std::to_string(t_q) + ": rows a to b-1");
  };
  const auto number = [&](std::string_view word, int64_t otherwise) {
    if (word.empty()) return otherwise;
    int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) refuse("--rows is '" + text + "'");
    return value;
  };
  const size_t colon = text.find(':');
  const std::string_view first = std::string_view(text).substr(0, colon);
  QueryRange rows{number(first, 0), t_q};
  rows.end = colon == std::string::npos ? rows.begin + 1 : number(std::string_view(text).substr(colon + 1), t_q);
  if (rows.begin < 0 || rows.end > t_q || rows.begin >= rows.end) {
    refuse("--rows is '" + text + "', but " + there_are(t_q, "row"));
  }
  return rows;
}

void check_steps(const std::vector<std::string>& asked, const explain::AttendCase& given) {
  const std::vector<std::string> taken = explain::step_names(given);
  for (const std::string& name : asked) {
    if (std::find(taken.begin(), taken.end(), name) != taken.end()) continue;
    std::string list;
    for (const std::string& each : taken) list.append(list.empty() ? "" : ", ").append(each);
    const std::vector<std::string>& names = explain::step_names();
    const bool known = std::find(names.begin(), names.end(), name) != names.end();
    std::string hint = known ? "" : did_you_mean(name, taken);
    hint.append(hint.empty() ? "" : " ").append("its steps are ").append(list);
    throw CommandError("usage.step",
                       known ? "this attention does not take the step '" + name + "'" : "unknown step '" + name + "'",
                       hint);
  }
}

AttendRequest request_of(const AttendFlags& flags, const AttendInput& input, const Streams& streams) {
  const AttendSizes s = explain::sizes_of(input.given);
  AttendRequest request;
  check_steps(flags.steps, input.given);
  request.steps = flags.steps;
  if (flags.head && (*flags.head < 0 || *flags.head >= s.heads)) {
    throw CommandError("usage.head", "--head is " + std::to_string(*flags.head) + ", but " + there_are(s.heads, "head"),
                       s.heads == 1 ? "leave it out" : "give 0 to " + std::to_string(s.heads - 1));
  }
  request.head = flags.head;
  request.top_k = flags.top_k;
  request.gradients = flags.grad;
  if (input.d_out.count() > 0) request.d_out = &input.d_out;
  const int64_t heads = flags.head ? 1 : s.heads;
  const int64_t row_numbers = s.batch * heads * s.t_k;
  if (!flags.rows.empty()) {
    request.rows = rows_of(flags.rows, s.t_q);
  } else if (row_numbers * s.t_q > kMostUnasked && s.t_q > kRowsUnasked) {
    request.rows = QueryRange{0, kRowsUnasked};
    warn(streams, "rows 0:" + std::to_string(kRowsUnasked) + " of " + std::to_string(s.t_q) + " are shown",
         "--rows a:b shows others; the checks cover what is shown");
  }
  const int64_t rows = request.rows ? request.rows->count() : s.t_q;
  const int64_t matrices = flags.steps.empty() ? 4 : static_cast<int64_t>(flags.steps.size());
  if (row_numbers * rows > kMostBytes / 4 / matrices) {
    std::ostringstream gigabytes;
    gigabytes << std::fixed << std::setprecision(1)
              << static_cast<double>(4 * matrices) * static_cast<double>(row_numbers * rows) / 1e9;
    throw CommandError("limit.memory",
                       "the steps would need " + gigabytes.str() + " GB (" + std::to_string(s.batch * heads) +
                           " heads x " + std::to_string(rows) + " x " + std::to_string(s.t_k) +
                           " x f32 a step); the limit is 1.0 GB",
                       "--rows a:b, --head h and --step name narrow them; --out gives the result of all rows", kLimit);
  }
  return request;
}

// "1.2 GB", "64 MB".
std::string in_decimal_units(int64_t bytes) {
  const bool giga = bytes >= 1'000'000'000;
  std::ostringstream text;
  text << std::fixed << std::setprecision(giga ? 1 : 0) << static_cast<double>(bytes) / (giga ? 1e9 : 1e6)
       << (giga ? " GB" : " MB");
  return text.str();
}

// Refuses a page of so many bytes of JSON; `size` is the text of it, "98 MB".
[[noreturn]] void refuse_page(const AttendInput& input, const AttendRequest& request, int64_t bytes,
                              const std::string& size) {
  const AttendSizes s = explain::sizes_of(input.given);
  const QueryRange rows = request.rows.value_or(QueryRange{0, s.t_q});
  const int64_t heads = s.batch * (request.head ? 1 : s.heads);
  // Most of a page grows with its rows; a tenth is left for what does not.
  const double share = 0.9 * static_cast<double>(explain::kMostPageBytes) / static_cast<double>(bytes);
  const auto fit = static_cast<int64_t>(share * static_cast<double>(rows.count()));
  std::string hint = "--rows a:b, --head h and --step name narrow it";
  if (fit > 0) {
    hint += "; about " + std::to_string(fit) + (fit == 1 ? " row fits" : " rows fit") + ", as --rows " +
            std::to_string(rows.begin) + ":" + std::to_string(rows.begin + fit);
  }
  throw CommandError("limit.page",
                     "the page would hold " + size + " (" + std::to_string(heads) + (heads == 1 ? " head" : " heads") +
                         " x " + std::to_string(rows.count()) + " rows x " + std::to_string(s.t_k) +
                         " keys a step); the limit is " + in_decimal_units(explain::kMostPageBytes),
                     hint + "; --json and --save have no such limit", kLimit);
}

// What can be refused before anything is computed: a number takes two bytes of JSON at least, and twelve most often.
void check_page_size(const AttendFlags& flags, const AttendInput& input, const AttendRequest& request) {
  if (flags.html.empty()) return;
  const std::vector<std::string> taken = flags.steps.empty() ? explain::step_names(input.given) : flags.steps;
  const auto matrices = std::count_if(taken.begin(), taken.end(),
                                      [](const std::string& name) { return is_query_by_key(step_named(name)); });
  const AttendSizes s = explain::sizes_of(input.given);
  const int64_t rows = request.rows ? request.rows->count() : s.t_q;
  const int64_t numbers = matrices * s.batch * (request.head ? 1 : s.heads) * rows * s.t_k;
  if (2 * numbers <= explain::kMostPageBytes) return;
  refuse_page(input, request, 12 * numbers, "about " + in_decimal_units(12 * numbers));
}

void save_trace(const std::string& path, const Walkthrough& all) {
  std::vector<std::pair<std::string, const Tensor*>> tensors;
  std::map<std::string, std::string> metadata{{"schema", "heed/attend@1"}};
  const auto add = [&](const Recording& each) {
    tensors.emplace_back(each.name, &each.values);
    if (each.values.shape() == each.whole) return;  // all of it
    metadata[each.name + ".first"] = to_text(each.first);
    metadata[each.name + ".of"] = to_text(each.whole);
  };
  for (const Recording& each : all.steps) add(each);
  for (const explain::Gradient& each : all.gradients) add(each.recording);
  io::write_safetensors(path, tensors, metadata);
}

void warn_of_rows_without_key(const Streams& streams, const explain::AttendChecks& checks) {
  if (checks.rows_without_key == 0) return;
  const bool one = checks.rows_without_key == 1;
  warn(streams, (one ? checks.first_row_without_key + " sees no key; its"
                     : std::to_string(checks.rows_without_key) + " rows see no key, the first is " +
                           checks.first_row_without_key + "; their") +
                    " output is defined as 0" + (checks.pairs > 0 ? " (PyTorch would give NaN)" : ""));
}

void say_written(const Streams& streams, const std::string& path) {
  if (!streams.quiet) streams.err << "heed: wrote " << printable(path) << "\n";
}

void check_files(const AttendFlags& f) {
  check_outputs({{"--out", f.out}, {"--save", f.save}, {"--html", f.html}}, {{"--q", f.q},
                                                                             {"--k", f.k},
                                                                             {"--v", f.v},
                                                                             {"--x", f.x},
                                                                             {"--context", f.context},
                                                                             {"--weights", f.weights},
                                                                             {"--keep", f.keep},
                                                                             {"--block", f.block},
                                                                             {"--bias", f.bias},
                                                                             {"--sink", f.sink},
                                                                             {"--d-out", f.d_out}});
}

void write_files(const AttendFlags& flags, const AttendInput& input, const Walkthrough& walkthrough,
                 const std::string& json, const Streams& streams) {
  if (!flags.out.empty()) {
    io::write_npy(flags.out, in_users_layout(input, explain::attend_output(input.given)));
    say_written(streams, flags.out);
  }
  if (!flags.save.empty()) {
    save_trace(flags.save, walkthrough);
    say_written(streams, flags.save);
  }
  if (!flags.html.empty()) {
    io::write_file(flags.html, explain::attend_page(json));
    say_written(streams, flags.html);
  }
}

void run_attend(const AttendFlags& flags, const Streams& streams) {
  if (flags.list) {
    streams.out << (flags.json ? explain::examples_json() : explain::examples_text());
    return;
  }
  check_files(flags);
  use_compute_flags(flags.compute);
  const AttendInput input = read_input(flags);
  const AttendRequest request = request_of(flags, input, streams);
  check_page_size(flags, input, request);
  for (const std::string& warning : input.warnings) warn(streams, warning);
  const Walkthrough walkthrough = explain::attend(input.given, request);
  warn_of_rows_without_key(streams, walkthrough.checks);
  const std::string nonfinite = explain::nonfinite_text(walkthrough.checks);
  if (!nonfinite.empty()) warn(streams, nonfinite);
  const bool wants_json = flags.json || !flags.html.empty();
  const std::string json = wants_json ? explain::attend_json(input.given, request, walkthrough) : "";
  if (!flags.html.empty()) {
    const auto bytes = static_cast<int64_t>(json.size());
    if (bytes > explain::kMostPageBytes) refuse_page(input, request, bytes, in_decimal_units(bytes));
  }
  // Files first: an answer on standard output means that they are there.
  write_files(flags, input, walkthrough, json, streams);
  if (flags.json) {
    streams.out << json;
  } else if (flags.html.empty()) {
    streams.out << explain::attend_text(input.given, request, walkthrough,
                                        style_of(streams.out_terminal, flags.digits));
  }
}

}  // namespace

void add_attend(CLI::App& app, Streams streams, std::function<void()>& action) {
  CLI::App* attend = app.add_subcommand("attend", "every step of an attention: formula, shapes and numbers");
  const auto flags = std::make_shared<AttendFlags>();
  add_attend_flags(*attend, *flags);
  attend->footer(
      R"(Files are .npy, or .safetensors as FILE:NAME; f16, bf16, f32 and f64. --q, --k
and --v of rank 2 are [T,D], of rank 3 [H,T,D], or with --heads [B,T,H*D]; rank
4 needs --layout. --out has the layout of --q.

Examples:
  heed attend --example cats
  heed attend --example self --causal --json
  heed attend --q q.npy --k k.npy --v v.npy --causal --rows 0:4 --top-k 5
  heed attend --x x.npy --weights w.safetensors --heads 8 --html page.html)");
  attend->callback([=, &action] { action = [=] { run_attend(*flags, streams); }; });
}

}  // namespace heed::cli
