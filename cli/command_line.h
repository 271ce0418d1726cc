// The command line as a function: arguments in, answer on streams.out, everything else on streams.err, exit code back.
#pragma once

#include <iosfwd>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace heed::cli {

// Exit codes, the same for every subcommand.
inline constexpr int kOk = 0;
inline constexpr int kFailure = 1;  // at run time
inline constexpr int kUsage = 2;    // a bad flag or argument

// A refusal: what is wrong, and what to do instead.
class CommandError : public std::runtime_error {
 public:
  CommandError(std::string code, const std::string& message, std::string hint, int exit = kUsage)
      : std::runtime_error(message), code_(std::move(code)), hint_(std::move(hint)), exit_(exit) {}

  const std::string& code() const { return code_; }  // for programs: "usage.unknown_case"
  const std::string& hint() const { return hint_; }
  int exit() const { return exit_; }

 private:
  std::string code_;
  std::string hint_;
  int exit_;
};

// Standard input, output and error of a command. Input is read only by commands that say so.
struct Streams {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
};

// Runs `heed arguments…` (without the program's own name).
int run(const std::vector<std::string>& arguments, Streams streams);

}  // namespace heed::cli
