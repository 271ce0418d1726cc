// Exit codes, the same for every subcommand.
#pragma once

#include <array>

namespace heed::cli {

inline constexpr int kOk = 0;
inline constexpr int kFailure = 1;
inline constexpr int kUsage = 2;
inline constexpr int kBadData = 3;
inline constexpr int kIncompatible = 4;
inline constexpr int kDiverged = 5;
inline constexpr int kCheckFailed = 6;
inline constexpr int kLimit = 7;
inline constexpr int kInterrupted = 130;

struct ExitCode {
  int code;
  const char* meaning;
};

// What `heed help exit-codes` prints.
inline constexpr std::array<ExitCode, 9> kExitCodes{{
    {kOk, "done"},
    {kFailure, "failure at run time: a full disk, something that should not happen"},
    {kUsage, "usage: a bad flag or value, a missing argument, options that contradict each other"},
    {kBadData, "a file that cannot be read, written or understood: the message names it, and the line"},
    {kIncompatible, "a model or checkpoint that does not fit"},
    {kDiverged, "training diverged: not a number, or infinite"},
    {kCheckFailed, "a check failed: the command worked, and what it checked is wrong"},
    {kLimit, "a resource limit: memory, time or the size of a page"},
    {kInterrupted, "interrupted by Ctrl-C"},
}};

}  // namespace heed::cli
