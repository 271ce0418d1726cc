// Saving and loading the parameters of a model: safetensors under PyTorch's names, so that state dicts go both ways.
#pragma once

#include <string>
#include <vector>

#include "heed/io/safetensors.h"
#include "heed/nn/module.h"

namespace heed::nn {

struct LoadOptions {
  // False: parameters that the file lacks keep their values, and tensors that the model lacks are passed over. What has
  // the right name and the wrong shape is refused all the same.
  bool strict = true;
};

// What a load that was not strict passed over.
struct LoadReport {
  std::vector<std::string> missing;     // parameters that the file lacks
  std::vector<std::string> unexpected;  // tensors that the model lacks
};

// Written whole or not at all.
void save_parameters(const std::vector<NamedParameter>& parameters, const std::string& path,
                     const io::SafetensorsOptions& options = {.pytorch = true});
// What does not fit is listed by name, with both shapes, in a FileError (of many, the first 20); nothing was changed
// then.
LoadReport load_parameters(const std::vector<NamedParameter>& parameters, const std::string& path,
                           const LoadOptions& options = {});

template <class Model>
void save(Model& model, const std::string& path, const io::SafetensorsOptions& options = {.pytorch = true}) {
  save_parameters(parameters(model), path, options);
}

template <class Model>
LoadReport load(Model& model, const std::string& path, const LoadOptions& options = {}) {
  return load_parameters(parameters(model), path, options);
}

}  // namespace heed::nn
