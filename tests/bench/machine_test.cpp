#include "bench/machine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

namespace heed::bench {
namespace {

namespace fs = std::filesystem;

// A folder with the files of a machine, gone at the end.
class FakeMachine {
 public:
  explicit FakeMachine(const std::map<std::string, std::string>& files)
      : root_(fs::temp_directory_path() / ("heed-machine-" + std::to_string(getpid()))) {
    fs::remove_all(root_);
    for (const auto& [path, text] : files) {
      fs::create_directories((root_ / path).parent_path());
      std::ofstream(root_ / path) << text;
    }
  }
  ~FakeMachine() { fs::remove_all(root_); }
  FakeMachine(const FakeMachine&) = delete;
  FakeMachine& operator=(const FakeMachine&) = delete;

  Machine read() const { return read_machine(root_.string()); }

 private:
  fs::path root_;
};

std::map<std::string, std::string> usual_files() {
  const std::string cpu = "sys/devices/system/cpu/";
  std::map<std::string, std::string> files{
      {"proc/cpuinfo", "processor\t: 0\nmodel name\t: Fast Chip 9000\n"},
      {"proc/meminfo", "MemTotal:       16000 kB\nMemFree:  1 kB\nMemAvailable:   8000 kB\n"},
      {"proc/loadavg", "1.25 0.5 0.1 1/100 4242\n"},
      {cpu + "online", "0-3\n"},
      {"sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"},
  };
  for (int each = 0; each < 4; ++each) {
    files[cpu + "cpu" + std::to_string(each) + "/topology/thread_siblings_list"] = each % 2 == 0 ? "0,2\n" : "1,3\n";
  }
  const char* caches[][4] = {{"1", "Data", "48K", "0,2"},
                             {"1", "Instruction", "32K", "0,2"},
                             {"2", "Unified", "1280K", "0,2"},
                             {"3", "Unified", "48M", "0-3"}};
  for (int each = 0; each < 4; ++each) {
    const std::string folder = cpu + "cpu0/cache/index" + std::to_string(each) + "/";
    files[folder + "level"] = caches[each][0];
    files[folder + "type"] = caches[each][1];
    files[folder + "size"] = caches[each][2];
    files[folder + "shared_cpu_list"] = caches[each][3];
  }
  return files;
}

TEST(Machine, IsWhatTheSystemSays) {
  const Machine machine = FakeMachine(usual_files()).read();
  EXPECT_EQ(machine.cpu, "Fast Chip 9000");
  EXPECT_EQ(machine.logical_cpus, 4);
  EXPECT_EQ(machine.cores, 2);
  ASSERT_EQ(machine.caches.size(), 3U);
  EXPECT_EQ(machine.caches[0].bytes, 48 * 1024);
  EXPECT_FALSE(machine.caches[0].unified);
  EXPECT_EQ(machine.caches[2].level, 3);
  EXPECT_EQ(machine.caches[2].bytes, 48 * 1024 * 1024);
  EXPECT_EQ(machine.caches[2].shared_by, 4);
  EXPECT_EQ(machine.memory, 16000 * 1024);
  EXPECT_EQ(machine.available, 8000 * 1024);
  EXPECT_EQ(machine.huge_pages, "madvise");
  EXPECT_EQ(machine.cpu_limit, 0);
  EXPECT_EQ(machine.load, 1.25);
}

TEST(Machine, ObeysTheLimitsOfAContainer) {
  auto files = usual_files();
  files["sys/fs/cgroup/cpu.max"] = "150000 100000\n";
  files["sys/fs/cgroup/memory.max"] = "1048576\n";
  const Machine machine = FakeMachine(files).read();
  EXPECT_EQ(machine.cpu_limit, 1.5);
  EXPECT_EQ(machine.memory, 1048576);
  EXPECT_EQ(machine.available, 1048576);
}

TEST(Machine, KnowsTheLimitsOfOlderContainersToo) {
  auto files = usual_files();
  files["sys/fs/cgroup/cpu/cpu.cfs_quota_us"] = "50000\n";
  files["sys/fs/cgroup/cpu/cpu.cfs_period_us"] = "100000\n";
  files["sys/fs/cgroup/memory/memory.limit_in_bytes"] = "2097152\n";
  const Machine machine = FakeMachine(files).read();
  EXPECT_EQ(machine.cpu_limit, 0.5);
  EXPECT_EQ(machine.memory, 2097152);
}

TEST(Machine, NoLimitIsNoLimit) {
  auto files = usual_files();
  files["sys/fs/cgroup/cpu.max"] = "max 100000\n";
  files["sys/fs/cgroup/memory.max"] = "max\n";
  files["sys/fs/cgroup/cpu/cpu.cfs_quota_us"] = "-1\n";
  const Machine machine = FakeMachine(files).read();
  EXPECT_EQ(machine.cpu_limit, 0);
  EXPECT_EQ(machine.memory, 16000 * 1024);
}

TEST(Machine, WhatTheSystemDoesNotTellStaysEmpty) {
  const Machine machine = FakeMachine({}).read();
  EXPECT_EQ(machine.cpu, "unknown");
  EXPECT_EQ(machine.logical_cpus, 0);
  EXPECT_EQ(machine.cores, 0);
  EXPECT_TRUE(machine.caches.empty());
  EXPECT_EQ(machine.memory, 0);
  EXPECT_EQ(machine.huge_pages, "");
}

TEST(Machine, NonsenseIsNotBelieved) {
  auto files = usual_files();
  files["sys/devices/system/cpu/online"] = "3-1,x,-";
  files["sys/devices/system/cpu/cpu0/cache/index0/size"] = "99999999999999999999K";
  files["sys/kernel/mm/transparent_hugepage/enabled"] = "]always[";
  const Machine machine = FakeMachine(files).read();
  EXPECT_EQ(machine.logical_cpus, 0);
  EXPECT_EQ(machine.caches.size(), 2U);
  EXPECT_EQ(machine.huge_pages, "");
}

}  // namespace
}  // namespace heed::bench
