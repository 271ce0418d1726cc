#include "cli/signals.h"

#include <csignal>

#include "heed/io/file.h"

namespace heed::cli {
namespace {

extern "C" void end_by(int signal) {
  io::remove_temporaries();
  std::signal(signal, SIG_DFL);
  std::raise(signal);  // comes when this returns: the shell sees what ended the program
}

}  // namespace

void handle_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    if (std::signal(signal, end_by) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
  std::signal(SIGPIPE, SIG_DFL);  // also where the caller had it ignored
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace heed::cli
