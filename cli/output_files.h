// The files that a command is to write, looked at before it does anything else.
#pragma once

#include <string>
#include <vector>

namespace heed::cli {

// A flag and the file that the user gave it; no file where the flag was not given.
struct FlagFile {
  std::string flag;
  std::string path;
};

// Refuses outputs that cannot be written, two that are one file, and one that is a file that is read. Inputs may be
// FILE.safetensors:NAME.
void check_outputs(const std::vector<FlagFile>& outputs, const std::vector<FlagFile>& inputs);

}  // namespace heed::cli
