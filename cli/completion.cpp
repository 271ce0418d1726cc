// heed completion: the scripts of cli/completion/, embedded in the binary.
#include <algorithm>
#include <memory>
#include <ostream>

#include "cli/completion_scripts.h"
#include "cli/option_table.h"
#include "cli/subcommands.h"

namespace heed::cli {

void add_completion(CLI::App& app, Streams streams, std::function<void()>& action) {
  CLI::App* completion = app.add_subcommand("completion", "print the completion script of a shell");
  const auto shell = std::make_shared<std::string>();
  completion->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->type_name("")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->footer(R"(Examples:
  source <(heed completion bash)    now; in ~/.bashrc, for every later bash
  source <(heed completion zsh)     the same for zsh, after compinit
  heed completion fish | source     the same for fish

cmake --install puts the scripts where the shells look for them.)");
  completion->callback([=, &action] {
    action = [=] {
      streams.out << (*shell == "bash" ? kBashCompletion : *shell == "zsh" ? kZshCompletion : kFishCompletion);
    };
  });
}

}  // namespace heed::cli
