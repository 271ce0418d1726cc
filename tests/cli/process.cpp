#include "tests/cli/process.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <stdexcept>

namespace heed::cli {
namespace {

constexpr unsigned kMostSeconds = 60;

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// In the child: becomes the program, or ends with 127.
[[noreturn]] void become(const Process& process) {
  alarm(kMostSeconds);
  std::vector<std::string> words = process.words;
  if (words.front() == "heed") words.front() = HEED_PROGRAM;
  const char* path = std::getenv("PATH");
  std::vector<std::string> environment{std::string("PATH=") + (path == nullptr ? "/usr/bin:/bin" : path)};
  for (const auto& [name, value] : process.environment) environment.push_back(name + "=" + value);
  execvpe(words.front().c_str(), pointers(words).data(), pointers(environment).data());
  _exit(127);
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Appends what can be read now; false at the end. A terminal that was closed ends with an error (EIO).
bool read_some(int descriptor, std::string& text) {
  std::array<char, 4096> bytes;
  const ssize_t count = read(descriptor, bytes.data(), bytes.size());
  if (count < 0 && errno == EINTR) return true;
  if (count <= 0) return false;
  text.append(bytes.data(), static_cast<size_t>(count));
  return true;
}

}  // namespace

Ended run_process(const Process& process) {
  int out[2];
  int err[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("no process");
  if (child == 0) {
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(process.out_path.empty() ? out[1] : open(process.out_path.c_str(), O_WRONLY), STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    become(process);
  }
  close(out[1]);
  close(err[1]);
  Ended ended;
  std::array<pollfd, 2> both{{{out[0], POLLIN, 0}, {err[0], POLLIN, 0}}};
  const std::array<std::string*, 2> texts{&ended.out, &ended.err};
  while (both[0].fd >= 0 || both[1].fd >= 0) {
    if (poll(both.data(), both.size(), -1) < 0 && errno != EINTR) break;
    for (size_t i = 0; i < both.size(); ++i) {
      if (both[i].fd < 0 || both[i].revents == 0 || read_some(both[i].fd, *texts[i])) continue;
      close(both[i].fd);
      both[i].fd = -1;
    }
  }
  ended.exit = wait_for(child);
  return ended;
}

Ended run_on_terminal(const Process& process, int columns) {
  winsize size{};
  size.ws_col = static_cast<unsigned short>(columns);
  size.ws_row = 24;
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child < 0) throw std::runtime_error("no pseudo-terminal");
  if (child == 0) become(process);
  Ended ended;
  while (read_some(terminal, ended.out)) {
  }
  ended.exit = wait_for(child);
  close(terminal);
  return ended;
}

bool has_program(const std::string& name) { return run_process({{"sh", "-c", "command -v " + name}, {}}).exit == 0; }

}  // namespace heed::cli
