// Tensors in files for tests of `heed attend`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "heed/core/rng.h"
#include "heed/core/tensor.h"
#include "heed/io/npy.h"
#include "heed/io/safetensors.h"
#include "tests/cli/in_process.h"
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
Json json_of(const std::vector<std::string>& arguments);

// The numbers of a step, row-major; null is -∞.
std::vector<float> numbers(const Json& document, const std::string& step);

const Json& step_of(const Json& document, const std::string& name);

}  // namespace heed::cli
