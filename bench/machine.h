// What the system says about the machine: CPU, caches, memory, limits. Linux; what it does not tell stays empty or 0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heed::bench {

struct Cache {
  int level = 0;
  bool unified = false;  // otherwise for data alone
  int64_t bytes = 0;
  int shared_by = 0;  // logical CPUs
};

struct Machine {
  std::string cpu = "unknown";
  int logical_cpus = 0;
  int cores = 0;
  std::vector<Cache> caches;  // of the first CPU, without those of instructions, the nearest first
  int64_t memory = 0;         // bytes; the container's limit where that is less
  int64_t available = 0;      // bytes of it that a program can have without swapping
  std::string huge_pages;     // transparent ones: "always", "madvise" or "never"
  double cpu_limit = 0;       // CPUs that the container may use at a time; 0 where there is no limit
  double load = 0;            // programs that wanted a CPU, on average over the last minute
};

// Reads /proc and /sys below `root`, which tests replace.
Machine read_machine(const std::string& root = "");

// The model name of the CPU, "unknown" where the system does not tell.
std::string cpu_name(const std::string& root = "");

}  // namespace heed::bench
