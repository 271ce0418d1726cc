#include "bench/process.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "heed/core/error.h"

namespace heed::bench {
namespace {

// A line "Name:   1234 kB" of /proc/self/status, in megabytes.
double status_mb(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kilobytes = 0;
    if (word == name + ":" && status >> kilobytes) return kilobytes * 1024e-6;
  }
  fail("resident_growth_mb", "/proc/self/status has no ", name, "; this case needs Linux");
}

}  // namespace

double waiting_seconds() {
  // A thread's schedstat is "nanoseconds running, nanoseconds waiting, slices". Threads may end while this runs.
  double waiting = 0;
  std::error_code ignored;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
    std::ifstream stat(thread.path() / "schedstat");
    double running_ns = 0;
    double waiting_ns = 0;
    if (stat >> running_ns >> waiting_ns) waiting += waiting_ns * 1e-9;
  }
  return waiting;
}

void reset_peak_resident() {
  // 5 resets VmHWM (proc(5)).
  std::ofstream("/proc/self/clear_refs") << "5";
}

double resident_mb() { return status_mb("VmRSS"); }
double peak_resident_mb() { return status_mb("VmHWM"); }

}  // namespace heed::bench
