#include "heed/nn/state.h"

#include <algorithm>
#include <set>
#include <utility>

#include "heed/core/tensor.h"
#include "heed/io/file_error.h"

namespace heed::nn {
namespace {

// Names with both shapes, one after the other; the first few of many.
class Mismatches {
 public:
  void add(const std::string& text) {
    if (count_++ < kShown) text_ += (text_.empty() ? "" : "; ") + text;
  }
  bool any() const { return count_ > 0; }
  std::string text() const {
    return count_ <= kShown ? text_ : text_ + "; and " + std::to_string(count_ - kShown) + " more";
  }

 private:
  static constexpr int kShown = 20;
  std::string text_;
  int count_ = 0;
};

}  // namespace

void save_parameters(const std::vector<NamedParameter>& parameters, const std::string& path,
                     const io::SafetensorsOptions& options) {
  std::vector<io::SafetensorsEntry> entries;
  entries.reserve(parameters.size());
  for (const NamedParameter& each : parameters) {
    const std::span<const float> values = std::as_const(*each.parameter).values();
    entries.push_back({each.name, each.parameter->shape().to_vector(), values});
  }
  io::write_safetensors(path, entries, options);
}

LoadReport load_parameters(const std::vector<NamedParameter>& parameters, const std::string& path,
                           const LoadOptions& options) {
  const io::SafetensorsFile file(path);
  LoadReport report;
  Mismatches wrong;
  std::set<std::string> known;
  for (const NamedParameter& each : parameters) {
    known.insert(each.name);
    const Dims& expected = each.parameter->shape();
    if (!file.has(each.name)) {
      report.missing.push_back(each.name);
      if (options.strict) wrong.add("missing '" + each.name + "' " + to_text(expected));
    } else if (file.shape(each.name) != expected.to_vector()) {
      wrong.add("'" + each.name + "' has shape " + to_text(file.shape(each.name)) + ", expected " + to_text(expected));
    }
  }
  for (const std::string& name : file.names()) {
    if (known.contains(name)) continue;
    report.unexpected.push_back(name);
    if (options.strict) wrong.add("unexpected '" + name + "' " + to_text(file.shape(name)));
  }
  if (wrong.any()) {
    throw io::FileError(path, {.what = "the tensors are not the model's parameters: " + wrong.text(),
                               .hint = options.strict ? "build the model with the sizes of the file, or load with "
                                                        ".strict = false to take only what fits by name"
                                                      : "build the model with the sizes of the file"});
  }
  // Everything is read before anything is changed.
  std::vector<std::pair<Parameter*, Tensor>> read;
  for (const NamedParameter& each : parameters) {
    if (file.has(each.name)) read.emplace_back(each.parameter, file.read(each.name).values);
  }
  for (auto& [parameter, values] : read) {
    std::copy(values.values().begin(), values.values().end(), parameter->values().begin());
  }
  return report;
}

}  // namespace heed::nn
