#include "bench/machine.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

namespace heed::bench {
namespace {

constexpr int kMostCpus = 4096;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// How many numbers a list such as "0-3,8" has.
int count_of_list(const std::string& list) {
  int count = 0;
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    int first = 0;
    int last = 0;
    char dash = 0;
    std::istringstream range(part);
    if (!(range >> first)) continue;
    if (!(range >> dash >> last) || dash != '-') last = first;
    if (last >= first) count += std::min(last - first + 1, kMostCpus);
  }
  return count;
}

// "48K", "1280K", "32M".
int64_t size_in_bytes(const std::string& text) {
  std::istringstream stream(text);
  int64_t number = 0;
  char unit = 0;
  if (!(stream >> number) || number < 0 || number > (int64_t{1} << 40)) return 0;
  stream >> unit;
  return number * (unit == 'K' ? 1024 : unit == 'M' ? 1024 * 1024 : 1);
}

std::vector<Cache> read_caches(const std::string& root) {
  std::vector<Cache> caches;
  for (int index = 0; index < 16; ++index) {
    const std::string folder = root + "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index);
    const std::string type = first_line(folder + "/type");
    if (type != "Data" && type != "Unified") continue;
    Cache cache;
    std::istringstream(first_line(folder + "/level")) >> cache.level;
    cache.unified = type == "Unified";
    cache.bytes = size_in_bytes(first_line(folder + "/size"));
    cache.shared_by = count_of_list(first_line(folder + "/shared_cpu_list"));
    if (cache.bytes > 0) caches.push_back(cache);
  }
  std::stable_sort(caches.begin(), caches.end(), [](const Cache& a, const Cache& b) { return a.level < b.level; });
  return caches;
}

// Logical CPUs of one core name the same list of siblings.
int count_cores(const std::string& root, int logical_cpus) {
  std::set<std::string> cores;
  for (int cpu = 0; cpu < std::min(logical_cpus, kMostCpus); ++cpu) {
    const std::string folder = root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology";
    const std::string siblings = first_line(folder + "/thread_siblings_list");
    if (!siblings.empty()) cores.insert(siblings);
  }
  return static_cast<int>(cores.size());
}

// A line "Name:   1234 kB" of /proc/meminfo, in bytes.
int64_t meminfo(const std::string& root, const std::string& name) {
  std::ifstream file(root + "/proc/meminfo");
  for (std::string word; file >> word;) {
    int64_t kilobytes = 0;
    if (word == name + ":" && file >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

// A number of a control group's file (version 2, then 1); `none` where there is no limit.
int64_t group_number(const std::string& path, int64_t none) {
  int64_t number = 0;
  std::istringstream line(first_line(path));
  return line >> number && number > 0 ? number : none;
}

double read_cpu_limit(const std::string& root) {
  std::string group = root + "/sys/fs/cgroup";
  double quota = 0;
  double period = 0;
  std::istringstream line(first_line(group + "/cpu.max"));
  if (line >> quota >> period && quota > 0 && period > 0) return quota / period;
  group += "/cpu";
  const auto old_quota = static_cast<double>(group_number(group + "/cpu.cfs_quota_us", 0));
  const auto old_period = static_cast<double>(group_number(group + "/cpu.cfs_period_us", 0));
  return old_quota > 0 && old_period > 0 ? old_quota / old_period : 0;
}

int64_t read_memory_limit(const std::string& root) {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  const std::string group = root + "/sys/fs/cgroup";
  return std::min(group_number(group + "/memory.max", kNone),
                  group_number(group + "/memory/memory.limit_in_bytes", kNone));
}

// "always [madvise] never".
std::string chosen_in_brackets(const std::string& line) {
  const size_t begin = line.find('[');
  const size_t end = line.find(']');
  return begin == std::string::npos || end == std::string::npos || end < begin
             ? ""
             : line.substr(begin + 1, end - begin - 1);
}

}  // namespace

std::string cpu_name(const std::string& root) {
  std::ifstream info(root + "/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const size_t start = line.find_first_not_of(" \t", line.find(':') + 1);
    if (start != std::string::npos) return line.substr(start);
  }
  return "unknown";
}

Machine read_machine(const std::string& root) {
  Machine machine;
  machine.cpu = cpu_name(root);
  machine.logical_cpus = count_of_list(first_line(root + "/sys/devices/system/cpu/online"));
  machine.cores = count_cores(root, machine.logical_cpus);
  machine.caches = read_caches(root);
  machine.memory = std::min(meminfo(root, "MemTotal"), read_memory_limit(root));
  machine.available = std::min(meminfo(root, "MemAvailable"), machine.memory);
  machine.huge_pages = chosen_in_brackets(first_line(root + "/sys/kernel/mm/transparent_hugepage/enabled"));
  machine.cpu_limit = read_cpu_limit(root);
  std::istringstream(first_line(root + "/proc/loadavg")) >> machine.load;
  return machine;
}

}  // namespace heed::bench
