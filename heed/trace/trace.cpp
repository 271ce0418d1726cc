#include "heed/trace/trace.h"

#include <algorithm>

namespace heed {

bool Trace::wants(std::string_view name) const {
  if (filter_.names.empty()) return true;
  const std::string parts = "." + scope_ + std::string(name) + ".";
  return std::any_of(filter_.names.begin(), filter_.names.end(),
                     [&](const std::string& each) { return parts.find("." + each + ".") != std::string::npos; });
}

Recording& Trace::add(std::string_view name, std::span<const Dim> dims, std::vector<int64_t> whole, int64_t group) {
  std::string full = scope_ + std::string(name);
  std::vector<int64_t> first(whole.size());
  std::vector<int64_t> shape = whole;
  for (size_t i = 0; i < whole.size(); ++i) {
    const bool kv = dims[i] == Dim::h_kv;
    if (filter_.queries && dims[i] == Dim::t_q) {
      const auto [begin, end] = *filter_.queries;
      check(begin >= 0 && begin <= end && end <= whole[i], "Trace", "queries ", begin, " to ", end, " of ", full,
            " are asked for; there are ", whole[i]);
      first[i] = begin;
      shape[i] = end - begin;
    } else if (filter_.head && counts_heads(dims[i])) {
      first[i] = kv ? *filter_.head / group : *filter_.head;
      check(*filter_.head >= 0 && first[i] < whole[i], "Trace", "head ", *filter_.head, " of ", full,
            " is asked for; there are ", kv ? whole[i] * group : whole[i]);
      shape[i] = 1;
    }
  }
  recordings_.push_back(
      {std::move(full), {dims.begin(), dims.end()}, std::move(whole), std::move(first), Tensor(std::move(shape))});
  return recordings_.back();
}

const Recording* Trace::find(std::string_view name) const {
  const auto found =
      std::find_if(recordings_.begin(), recordings_.end(), [&](const Recording& each) { return each.name == name; });
  return found == recordings_.end() ? nullptr : &*found;
}

TraceScope::TraceScope(Trace* trace, std::string_view name) : trace_(trace) {
  if (trace_ == nullptr) return;
  before_ = trace_->scope_.size();
  trace_->scope_.append(name).append(".");
}

TraceScope::~TraceScope() {
  if (trace_ != nullptr) trace_->scope_.resize(before_);
}

}  // namespace heed
