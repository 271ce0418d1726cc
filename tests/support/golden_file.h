// Goldens of the training stack: tests/golden/nn/NAME.safetensors, made by PyTorch in double (tools/goldens/).
//
//     for (const NnGolden& golden : load_nn_goldens("linear")) {
//       const Tensor x = golden.tensor("in/x");
//       if (golden.option<bool>("arguments/bias")) …
//       compare(y, golden.doubles("out/y"));
//       for (const std::string& name : golden.names("param/")) …    // PyTorch's state dict
//     }
//
// A case has in/NAME, out/NAME, d/NAME (gradients of inputs), param/NAME and grad/NAME; tools/goldens/golden_file.py
// has the details.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "heed/core/tensor.h"

namespace heed::test {

// Row-major doubles.
struct Doubles {
  std::vector<int64_t> shape{};
  std::vector<double> values{};
};

// One case of a file. What a case does not have is an Error that names case and file.
class NnGolden {
 public:
  const std::string& name() const { return name_; }

  bool has(const std::string& tensor) const { return numbers_.contains(tensor) || ids_.contains(tensor); }
  // The names that begin with `prefix`, without it, in the order of the file: names("param/").
  std::vector<std::string> names(const std::string& prefix) const;

  const Doubles& doubles(const std::string& tensor) const;        // F64 and F32
  Tensor tensor(const std::string& tensor) const;                 // the same, rounded to f32
  const TensorOf<int64_t>& ids(const std::string& tensor) const;  // I64: ids, labels; masks, where 1 hides

  // An option by its path in the JSON text: option<int64_t>("arguments/num_heads"). T is bool, int64_t, double,
  // std::string or std::vector<int64_t>; another kind of value is an Error. One that is null is not there.
  bool has_option(const std::string& path) const;
  template <class T>
  T option(const std::string& path) const;
  template <class T>
  T option(const std::string& path, T otherwise) const {
    return has_option(path) ? option<T>(path) : otherwise;
  }

 private:
  friend std::vector<NnGolden> load_nn_goldens(const std::string& name);

  std::string name_;
  std::string file_;
  std::string options_;  // JSON; parsed when asked, so that tests need not compile the parser
  std::vector<std::string> order_;
  std::map<std::string, Doubles> numbers_;
  std::map<std::string, TensorOf<int64_t>> ids_;
};

// The cases of tests/golden/nn/<name>.safetensors, in the order of their first tensors. Throws when the file is missing
// or malformed.
std::vector<NnGolden> load_nn_goldens(const std::string& name);

}  // namespace heed::test
