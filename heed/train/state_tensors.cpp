#include "heed/train/state_tensors.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "heed/core/error.h"

namespace heed {
namespace {

using TensorsByName = std::map<std::string_view, const StateTensor*>;

// One line for each tensor that does not fit.
std::string mismatches(const std::vector<StateTensor>& expected, const TensorsByName& given) {
  std::string text;
  TensorsByName unknown = given;
  for (const StateTensor& each : expected) {
    unknown.erase(each.name);
    const auto found = given.find(each.name);
    if (found == given.end()) {
      text += "\n  " + each.name + " " + to_text(each.shape) + " is missing";
    } else if (found->second->shape != each.shape) {
      text += "\n  " + each.name + " has shape " + to_text(found->second->shape) + ", expected " + to_text(each.shape);
    }
  }
  for (const auto& [name, tensor] : unknown) {
    text += "\n  " + std::string(name) + " " + to_text(tensor->shape) + " is not expected";
  }
  return text;
}

}  // namespace

std::vector<StateTensor> state_tensors(const SlabLayout& layout, std::span<const StateSlab> slabs) {
  std::vector<StateTensor> tensors;
  for (const StateSlab& slab : slabs) {
    for (const SlabLayout::Entry& entry : layout.entries()) {
      tensors.push_back({.name = std::string(slab.prefix) + "." + entry.name,
                         .shape = entry.shape.to_vector(),
                         .values = {slab.memory + entry.offset, static_cast<size_t>(entry.count)}});
    }
  }
  return tensors;
}

void restore_state_tensors(const char* function, const SlabLayout& layout, std::span<const StateSlab> slabs,
                           const std::vector<StateTensor>& tensors) {
  TensorsByName given;
  for (const StateTensor& each : tensors) {
    check(given.emplace(each.name, &each).second, function, "the state has two tensors of the name ", each.name);
    check(static_cast<int64_t>(each.values.size()) == element_count(each.shape), function, each.name, " has ",
          each.values.size(), " values for the shape ", each.shape);
  }
  const std::string text = mismatches(state_tensors(layout, slabs), given);
  check(text.empty(), function, "the state is not that of these parameters:", text,
        "\nrestore what was saved of the same model, with the same parameters frozen");
  for (const StateSlab& slab : slabs) {
    for (const SlabLayout::Entry& entry : layout.entries()) {
      const std::span<const float> from = given.at(std::string(slab.prefix) + "." + entry.name)->values;
      std::copy(from.begin(), from.end(), slab.memory + entry.offset);
    }
  }
}

}  // namespace heed
