#include "cli/command_line.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>
#include <ostream>

#include "cli/ascii.h"
#include "cli/complete.h"
#include "cli/help.h"
#include "cli/option_table.h"
#include "cli/subcommands.h"
#include "cli/usage_error.h"
#include "heed/core/error.h"
#include "heed/core/version.h"
#include "heed/io/file_error.h"
#include "heed/parallel/parallel_for.h"

namespace heed::cli {
namespace {

// One line each.
void add_commands(CLI::App& app, Streams streams, std::function<void()>& action) {
  add_attend(app, streams, action);
  add_bench(app, streams, action);
  add_check(app, streams, action);
  add_doctor(app, streams, action);
  add_completion(app, streams, action);
  add_help(app, streams, action);
}

// What has to be known before the arguments are parsed, because the parser's own errors obey it too.
struct EarlyFlags {
  bool json = false;
  bool quiet = false;
  std::string color;
};

EarlyFlags early_flags(const std::vector<std::string>& arguments) {
  EarlyFlags flags;
  for (size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    const std::string& word = arguments[i];
    if (word == "--json") flags.json = true;
    if (word == "-q" || word == "--quiet") flags.quiet = true;
    if (word.rfind("--color=", 0) == 0) flags.color = word.substr(8);
    if (word == "--color" && i + 1 < arguments.size()) flags.color = arguments[i + 1];
  }
  return flags;
}

// The words as the parser takes them. Names of flags are written with dashes; underscores are taken for them. "--keep="
// becomes "--keep" and an empty value: the parser would take the next word for the value.
std::vector<std::string> prepared(const std::vector<std::string>& arguments) {
  std::vector<std::string> words;
  bool flags_may_follow = true;
  for (std::string word : arguments) {
    flags_may_follow = flags_may_follow && word != "--";
    if (!flags_may_follow || word.rfind("--", 0) != 0) {
      words.push_back(std::move(word));
      continue;
    }
    const auto equals = std::find(word.begin(), word.end(), '=');
    std::replace(word.begin(), equals, '_', '-');
    const bool empty_value = equals != word.end() && equals + 1 == word.end();
    if (empty_value) word.pop_back();
    words.push_back(std::move(word));
    if (empty_value) words.emplace_back();
  }
  return words;
}

Streams with_flags(Streams streams, const EarlyFlags& flags) {
  streams.quiet = streams.quiet || flags.quiet;
  for (Terminal* terminal : {&streams.out_terminal, &streams.err_terminal}) {
    if (flags.color == "always") terminal->color = true;
    if (flags.color == "never") terminal->color = false;
  }
  return streams;
}

// "heed: error: message  [place]", "  hint: hint".
void write_complaint(const Streams& streams, const std::string& kind, Paint paint, const CommandError& error) {
  const Terminal& terminal = streams.err_terminal;
  streams.err << painted(terminal, Paint::bold, "heed:") << " " << painted(terminal, paint, kind + ":") << " "
              << printable(error.what());
  if (!error.place().empty()) streams.err << "  [" << printable(error.place()) << "]";
  streams.err << "\n";
  if (!error.hint().empty()) streams.err << "  hint: " << printable(error.hint()) << "\n";
  streams.err.flush();
}

int report_error(const CommandError& error, bool json, const Streams& streams) {
  write_complaint(streams, "error", Paint::red, error);
  if (json) {
    using Json = nlohmann::ordered_json;
    const auto text_or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
    const Json document{{"error",
                         {{"code", error.code()},
                          {"exit", error.exit()},
                          {"message", error.what()},
                          {"hint", text_or_null(error.hint())},
                          {"at", text_or_null(error.place())}}}};
    // Names of files need not be UTF-8; JSON has to be.
    streams.out << document.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
  }
  return error.exit();
}

// An exception as the error that a user reads. A command says better what it knows of the cause.
CommandError as_command_error(const std::exception& error) {
  if (const auto* known = dynamic_cast<const CommandError*>(&error)) return *known;
  if (dynamic_cast<const std::bad_alloc*>(&error)) {
    return {"limit.memory", "there is not enough memory", "heed doctor tells how much is available", kLimit};
  }
  if (const auto* file = dynamic_cast<const io::FileError*>(&error)) {
    return {"data.file", file->message(), file->hint(), kBadData, file->at()};
  }
  if (dynamic_cast<const Error*>(&error)) return {"usage.refused", error.what(), "", kUsage};
  return {"failure", error.what(), "", kFailure};
}

constexpr const char* kFooter = R"(Environment:
  NO_COLOR                     not empty: no colour
  FORCE_COLOR, CLICOLOR_FORCE  neither empty nor 0: colour, also into a file
  TERM=dumb                    no colour, and no line is drawn over
  COLUMNS                      the width of tables and help
  LC_ALL, LC_CTYPE, LANG       the first that is set decides: UTF-8, or ASCII

The answer is on standard output, everything else on standard error. With --json
the answer is one JSON document, an error too. Nothing waits for standard input
or uses the network. In names of flags _ is taken for -.

Examples:
  heed doctor
  heed bench attention --quick
  heed help exit-codes)";

// The parser of `heed`, with every command and what all of them take.
void build(CLI::App& app, const Streams& streams, std::function<void()>& action) {
  app.set_help_flag("-h,--help", "this text, also as `heed help COMMAND`");
  app.set_version_flag("-V,--version", "heed " + std::string(kVersion), "Heed's version");
  app.require_subcommand(1);
  app.fallthrough();  // options of `heed` may stand after the command
  // Both are read before the parser runs (EarlyFlags); here they are known, checked and explained.
  app.add_option("--color", "colour: as the terminal and the environment say, always or never (default: auto)")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  app.add_flag("-q,--quiet")->description("no warnings");
  add_commands(app, streams, action);
  refuse_empty_values(app);
  app.footer(kFooter);
}

// `heed __complete -- words…`, for the scripts of cli/completion/: answers or says nothing, and never fails.
void answer_completion(const CLI::App& app, const std::vector<std::string>& arguments, std::ostream& out) {
  const bool marked = arguments.size() > 1 && arguments[1] == "--";
  out << to_lines(complete(app, {arguments.begin() + (marked ? 2 : 1), arguments.end()}));
}

void parse_and_act(const std::vector<std::string>& arguments, const Streams& streams) {
  CLI::App app("Exact multi-head attention for CPUs: every step visible, every speed measured.", "heed");
  std::function<void()> action;
  build(app, streams, action);
  if (!arguments.empty() && arguments.front() == "__complete") return answer_completion(app, arguments, streams.out);
  // CLI11 takes the arguments from the back.
  std::vector<std::string> reversed = prepared(arguments);
  std::reverse(reversed.begin(), reversed.end());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    streams.out << help_text(innermost(app), streams.out_terminal);
    return;
  } catch (const CLI::CallForVersion& version) {
    streams.out << version.what() << "\n";
    return;
  } catch (const CLI::ParseError& error) {
    throw usage_error(app, error);
  }
  action();
}

void warn_of_missing_threads(const Streams& streams) {
  const int missing = threads_missing();
  if (missing == 0) return;
  warn(streams, "the system did not start " + std::to_string(missing) + (missing == 1 ? " thread" : " threads"),
       "results are the same; give fewer --threads, or raise the limits on processes and memory");
}

// Why a write failed, where the last error of the system is one of writing.
std::string write_error() {
  for (const int each : {ENOSPC, EDQUOT, EFBIG, EIO, EBADF, EPIPE}) {
    if (errno == each) return std::string(": ") + std::strerror(each);
  }
  return "";
}

// An answer that did not arrive is a failure.
void flush_answer(std::ostream& out) {
  if (out.flush()) return;
  throw CommandError("failure.write", "the answer could not be written to standard output" + write_error(),
                     "is the disk full, or standard output closed?", kFailure);
}

int run_command(const std::vector<std::string>& arguments, const Streams& streams, bool json) {
  try {
    errno = 0;
    parse_and_act(arguments, streams);
    flush_answer(streams.out);
    warn_of_missing_threads(streams);
    return kOk;
  } catch (const ExitWith& exit) {
    streams.out.flush();
    warn_of_missing_threads(streams);
    return exit.code;
  } catch (const std::exception& error) {
    return report_error(as_command_error(error), json, streams);
  }
}

}  // namespace

void warn(const Streams& streams, const std::string& message, const std::string& hint) {
  if (!streams.quiet) write_complaint(streams, "warning", Paint::yellow, {"warning", message, hint});
}

std::string there_are(int64_t count, const std::string& thing) {
  return (count == 1 ? "there is " : "there are ") + std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

int run(const std::vector<std::string>& arguments, Streams streams) {
  const EarlyFlags flags = early_flags(arguments);
  const Streams wished = with_flags(streams, flags);
  AsciiBuffer out_buffer(streams.out.rdbuf(), flags.json ? AsciiStyle::json : AsciiStyle::text);
  AsciiBuffer err_buffer(streams.err.rdbuf(), AsciiStyle::text);
  std::ostream ascii_out(&out_buffer);
  std::ostream ascii_err(&err_buffer);
  ascii_err << std::unitbuf;
  return run_command(
      arguments,
      {wished.in, wished.out_terminal.utf8 ? wished.out : ascii_out, wished.err_terminal.utf8 ? wished.err : ascii_err,
       wished.out_terminal, wished.err_terminal, wished.quiet},
      flags.json);
}

}  // namespace heed::cli
