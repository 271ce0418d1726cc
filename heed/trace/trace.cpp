#include "heed/trace/trace.h"

#include <algorithm>

namespace heed {

bool Trace::wants(std::string_view name) const {
  const std::vector<std::string>& names = filter_.names;
  if (names.empty()) return true;
  constexpr std::string_view kGrad = ".grad";
  const std::string_view step = name.ends_with(kGrad) ? name.substr(0, name.size() - kGrad.size()) : name;
  return std::any_of(names.begin(), names.end(), [&](const std::string& each) { return each == name || each == step; });
}

Recording& Trace::add(std::string name, std::vector<std::string> dims, std::vector<int64_t> whole, int64_t group) {
  std::vector<int64_t> first(whole.size());
  std::vector<int64_t> shape = whole;
  for (size_t i = 0; i < whole.size(); ++i) {
    const bool kv = dims[i] == "Hkv";
    if (filter_.queries && dims[i] == "Tq") {
      const auto [begin, end] = *filter_.queries;
      check(begin >= 0 && begin <= end && end <= whole[i], "Trace", "queries ", begin, " to ", end, " of ", name,
            " are asked for; there are ", whole[i]);
      first[i] = begin;
      shape[i] = end - begin;
    } else if (filter_.head && (kv || dims[i] == "H")) {
      first[i] = kv ? *filter_.head / group : *filter_.head;
      check(*filter_.head >= 0 && first[i] < whole[i], "Trace", "head ", *filter_.head, " of ", name,
            " is asked for; there are ", kv ? whole[i] * group : whole[i]);
      shape[i] = 1;
    }
  }
  recordings_.push_back(
      {std::move(name), std::move(dims), std::move(whole), std::move(first), Tensor(std::move(shape))});
  return recordings_.back();
}

const Recording* Trace::find(std::string_view name) const {
  const auto found =
      std::find_if(recordings_.begin(), recordings_.end(), [&](const Recording& each) { return each.name == name; });
  return found == recordings_.end() ? nullptr : &*found;
}

}  // namespace heed
