#include "heed/train/slab_layout.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string_view>

#include "heed/core/error.h"
#include "heed/core/extent.h"
#include "heed/core/large_memory.h"
#include "heed/core/memory.h"

namespace heed {
namespace {

// The most floats of a segment: with Adam, 256 KiB of values, gradients and moments, about 20 µs.
constexpr int64_t kSegmentElements = int64_t{1} << 14;

// Otherwise a parameter would be updated twice, or the states of two could not be told apart.
void check_distinct(const char* function, const std::vector<nn::NamedParameter>& parameters) {
  std::map<const ParameterData*, std::string_view> known;
  std::set<std::string_view> names;
  for (const nn::NamedParameter& each : parameters) {
    check(each.parameter != nullptr && each.parameter->given(), function, "parameter '", each.name,
          "' is absent; list the parameters of a model with nn::parameters");
    const auto [first, is_new] = known.emplace(each.parameter->shared().get(), each.name);
    check(is_new, function, "'", each.name, "' is the same parameter as '", first->second, "'; list it once");
    check(names.insert(each.name).second, function, "two parameters have the name '", each.name,
          "'; give each a name of its own, by which its state is saved");
  }
}

}  // namespace

SlabLayout::SlabLayout(const char* function, const std::vector<nn::NamedParameter>& parameters) {
  check_distinct(function, parameters);
  for (const nn::NamedParameter& each : parameters) {
    if (each.parameter->frozen()) continue;
    entries_.push_back({.name = each.name,
                        .shape = each.parameter->shape(),
                        .offset = size_,
                        .count = each.parameter->count(),
                        .parameter = each.parameter->shared()});
    size_ += round_up(each.parameter->count(), kSlabUnit);
    check(size_ <= kMostElements, function, "the parameters up to '", each.name, "' have more than 2^48 elements");
  }
  cut_into_segments();
}

void SlabLayout::cut_into_segments() {
  int64_t task_elements = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    for (int64_t begin = 0; begin < entries_[i].count; begin += kSegmentElements) {
      const int64_t count = std::min(kSegmentElements, entries_[i].count - begin);
      if (task_elements > 0 && task_elements + count > kSegmentElements) {
        task_begins_.push_back(segments_.size());
        task_elements = 0;
      }
      segments_.push_back({.entry = i, .begin = begin, .count = count});
      task_elements += count;
    }
  }
  if (!segments_.empty()) task_begins_.push_back(segments_.size());
}

std::shared_ptr<ParameterData> SlabLayout::parameter(const char* function, const Entry& entry) const {
  std::shared_ptr<ParameterData> parameter = entry.parameter.lock();
  check(
      parameter != nullptr, function, "the model with parameter '", entry.name,
      "' is gone: it was destroyed, or another one was assigned to it; start again with the parameters of the new one");
  return parameter;
}

void SlabLayout::mark_changed() const {
  for (const Entry& entry : entries_) {
    if (const std::shared_ptr<ParameterData> parameter = entry.parameter.lock()) ++parameter->version;
  }
}

std::shared_ptr<float[]> SlabLayout::allocate() const {
  const std::shared_ptr<std::byte> memory = allocate_large(static_cast<size_t>(size_) * sizeof(float));
  return {memory, reinterpret_cast<float*>(memory.get())};
}

}  // namespace heed
