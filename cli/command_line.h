// The command line as a function: arguments in, answer on streams.out, everything else on streams.err, exit code back.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cli/exit_codes.h"
#include "cli/terminal.h"

namespace heed::cli {

// A refusal: what is wrong, where, and what to do instead. On standard error it reads
//   heed: error: what is wrong  [place]
//     hint: what to do instead
class CommandError : public std::runtime_error {
 public:
  CommandError(std::string code, const std::string& message, std::string hint, int exit = kUsage,
               std::string place = "")
      : std::runtime_error(message),
        code_(std::move(code)),
        hint_(std::move(hint)),
        exit_(exit),
        place_(std::move(place)) {}

  const std::string& code() const { return code_; }  // for programs: "usage.unknown_case"
  const std::string& hint() const { return hint_; }
  int exit() const { return exit_; }
  const std::string& place() const { return place_; }  // "notes.toml:7, heads", "q.npy"; empty where there is none

 private:
  std::string code_;
  std::string hint_;
  int exit_;
  std::string place_;
};

// Thrown by a command that has given its whole answer and ends with another code than 0: `heed check` with 6.
struct ExitWith {
  int code;
};

// Standard input, output and error of a command. Input is read only by commands that say so.
struct Streams {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  Terminal out_terminal = {};
  Terminal err_terminal = {};
  bool quiet = false;  // --quiet: no warnings
};

// "heed: warning: …" with its hint on streams.err; nothing with --quiet.
void warn(const Streams& streams, const std::string& message, const std::string& hint = "");

// "there is 1 head", "there are 3 heads", for messages.
std::string there_are(int64_t count, const std::string& thing);

// Runs `heed arguments…` (without the program's own name).
int run(const std::vector<std::string>& arguments, Streams streams);

}  // namespace heed::cli
