#include "cli/output_files.h"

#include "cli/command_line.h"
#include "heed/io/array.h"
#include "heed/io/output_target.h"

namespace heed::cli {

void check_outputs(const std::vector<FlagFile>& outputs, const std::vector<FlagFile>& inputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const FlagFile& output = outputs[i];
    if (output.path.empty()) continue;
    io::output_target(output.path);
    for (size_t other = 0; other < i; ++other) {
      if (outputs[other].path.empty() || !io::same_file(outputs[other].path, output.path)) continue;
      throw CommandError("usage.outputs", outputs[other].flag + " and " + output.flag + " name the same file",
                         "give each a file of its own", kUsage, output.path);
    }
    for (const FlagFile& input : inputs) {
      if (input.path.empty() || !io::same_file(io::split_reference(input.path).file, output.path)) continue;
      throw CommandError("usage.outputs",
                         output.flag + " would replace the file that " + input.flag + " reads: they name the same file",
                         "give " + output.flag + " another file", kUsage, output.path);
    }
  }
}

}  // namespace heed::cli
