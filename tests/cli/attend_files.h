// Tensors in files for tests of `heed attend`.
#pragma once

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "heed/core/rng.h"
#include "heed/core/tensor.h"
#include "heed/io/npy.h"
#include "heed/io/safetensors.h"
#include "tests/cli/in_process.h"
#include "tests/cli/json_schema.h"
#include "tests/support/temporary_directory.h"

namespace heed::cli {

using Json = nlohmann::ordered_json;

inline Tensor drawn(std::vector<int64_t> shape, uint64_t seed, float deviation = 1.0F) {
  Tensor made(std::move(shape));
  Rng(seed).fill_normal(made.values(), deviation);
  return made;
}

inline Tensor tensor_of(std::vector<int64_t> shape, const std::vector<float>& values) {
  Tensor made(std::move(shape));
  std::copy(values.begin(), values.end(), made.values().begin());
  return made;
}

// A directory of .npy files.
struct Files : test::TemporaryDirectory {
  std::string npy(const std::string& name, const Tensor& tensor) const {
    io::write_npy(file(name), tensor);
    return file(name);
  }

  // --q --k --v of drawn tensors of these shapes.
  std::vector<std::string> qkv(const std::vector<int64_t>& q, const std::vector<int64_t>& k,
                               const std::vector<int64_t>& v) const {
    return {
        "attend", "--q", npy("q.npy", drawn(q, 1)), "--k", npy("k.npy", drawn(k, 2)), "--v", npy("v.npy", drawn(v, 3))};
  }
};

inline std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The document of a run that must succeed; it obeys its schema.
inline Json json_of(const std::vector<std::string>& arguments) {
  const Result result = heed(arguments + std::vector<std::string>{"--json"});
  EXPECT_EQ(result.exit, kOk) << result.err;
  EXPECT_EQ(answer_mistake(nlohmann::json::parse(result.out)), "") << result.out.substr(0, 1000);
  return Json::parse(result.out);
}

// The numbers of arrays in arrays, in order; null is -∞.
inline void collect(const Json& data, std::vector<float>& numbers) {
  for (const Json& each : data) {
    if (each.is_array()) {
      collect(each, numbers);
    } else {
      numbers.push_back(each.is_null() ? -std::numeric_limits<float>::infinity() : each.get<float>());
    }
  }
}

// Those of a step, row-major.
inline std::vector<float> numbers(const Json& document, const std::string& step) {
  std::vector<float> result;
  for (const Json& each : document["steps"]) {
    if (each["name"] == step) collect(each["data"], result);
  }
  return result;
}

inline const Json& step_of(const Json& document, const std::string& name) {
  static const Json none;
  for (const Json& each : document["steps"]) {
    if (each["name"] == name) return each;
  }
  return none;
}

}  // namespace heed::cli
