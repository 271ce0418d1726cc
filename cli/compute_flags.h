// --threads and --isa: how a command computes, the same in every command that does.
#pragma once

#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace heed::cli {

struct ComputeFlags {
  std::optional<int> threads;
  std::string isa;
};

// Adds both; `threads_about` says what --threads is and its default here.
void add_compute_flags(CLI::App& command, ComputeFlags& flags, const std::string& threads_about);

// Refuse what is not possible: threads out of bounds, an instruction set that is unknown or not of this CPU.
void check_threads(const ComputeFlags& flags);
void use_isa(const ComputeFlags& flags);

// Checks both, and computes by them from here on; what was not given stays as it is.
void use_compute_flags(const ComputeFlags& flags);

}  // namespace heed::cli
