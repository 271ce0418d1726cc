#include "heed/train/optimiser_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <utility>
#include <vector>

#include "heed/core/tensor.h"
#include "heed/io/file_error.h"
#include "heed/io/safetensors.h"

namespace heed {
namespace {

constexpr const char* kSteps = "step";
constexpr const char* kLearningRate = "learning_rate";

// The shortest text that reads back as the same number.
template <class Number>
std::string text_of(Number value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

template <class Number>
Number number_of(const io::SafetensorsFile& file, const char* key) {
  const auto found = file.metadata().find(key);
  Number value{};
  if (found != file.metadata().end()) {
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size()) return value;
  }
  throw io::FileError(file.path(), {.what = std::string("its metadata has no number '") + key + "'",
                                    .hint = "the state of an optimiser is written by save_optimiser"});
}

}  // namespace

void save_optimiser(const std::string& path, const Optimiser& optimiser) {
  const OptimiserState state = optimiser.state();
  std::vector<Tensor> copies;
  copies.reserve(state.tensors.size());
  std::vector<std::pair<std::string, const Tensor*>> tensors;
  for (const StateTensor& each : state.tensors) {
    copies.emplace_back(each.shape);
    std::copy(each.values.begin(), each.values.end(), copies.back().values().begin());
    tensors.emplace_back(each.name, &copies.back());
  }
  io::write_safetensors(path, tensors, {{kSteps, text_of(state.steps)}, {kLearningRate, text_of(state.learning_rate)}});
}

void load_optimiser(const std::string& path, Optimiser& optimiser) {
  const io::SafetensorsFile file(path);
  OptimiserState state{.steps = number_of<int64_t>(file, kSteps),
                       .learning_rate = number_of<double>(file, kLearningRate),
                       .tensors = {}};
  std::vector<Tensor> tensors;
  tensors.reserve(file.names().size());
  for (const std::string& name : file.names()) {
    tensors.push_back(file.read(name).values);
    state.tensors.push_back({.name = name, .shape = file.shape(name), .values = tensors.back().values()});
  }
  optimiser.restore(state);
}

}  // namespace heed
