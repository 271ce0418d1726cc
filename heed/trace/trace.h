// Trace: records the steps of attention by name (the names in heed/attention/README.md).
//
//     Trace trace({{"scores", "weights"}, 0, QueryRange{100, 140}});   // these steps of head 0, 40 queries
//     options.trace = &trace;                                          // null = off
//
// The filter is applied before anything is computed, so a long sequence does not become a T×T matrix unless requested.
//
// A model of many layers records each under its own name:
//
//     const TraceScope layer(options.trace, "layers.0");
//     const TraceScope self(options.trace, "self");       // scores are recorded as layers.0.self.scores
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/core/tensor.h"
#include "heed/trace/dim.h"

namespace heed {

// Queries begin … end-1.
struct QueryRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t count() const { return end - begin; }
};

// What to record. Recording names have parts separated by dots, and a filter name matches every recording that contains
// its parts: `weights` matches the weights of every layer and, if there is a backward call, weights.grad; `layers.0`
// everything in that layer; `layers.0.self.weights` one step.
struct TraceFilter {
  std::vector<std::string> names{};     // empty: every step
  std::optional<int64_t> head{};        // a query head and the key/value head it reads; empty: every head
  std::optional<QueryRange> queries{};  // empty: every query
};

// A part of one step's tensor.
struct Recording {
  std::string name;            // including its scopes: "scores", "layers.0.self.scores"
  std::vector<Dim> dims;       // what each dimension counts
  std::vector<int64_t> whole;  // shape of the whole tensor
  std::vector<int64_t> first;  // where the recorded part begins
  Tensor values;               // the recorded part
};

class Trace {
 public:
  Trace() = default;
  explicit Trace(TraceFilter filter) : filter_(std::move(filter)) {}

  const TraceFilter& filter() const { return filter_; }
  // True if the filter matches a recording `name` made now, in the open scopes.
  bool wants(std::string_view name) const;

  // Adds a zeroed recording of the part selected by the filter, for the caller to fill. The filter's queries narrow the
  // dimension Tq, its head the dimension H, and Hkv, where `group` query heads share a head. An Error if the filter
  // names queries or a head that do not exist.
  Recording& add(std::string_view name, std::span<const Dim> dims, std::vector<int64_t> whole, int64_t group = 1);

  // The same, filled from the whole tensor.
  template <int N>
  void record(std::string_view name, std::span<const Dim> dims, View<const float, N> whole, int64_t group = 1) {
    if (!wants(name)) return;
    const Shape<N>& shape = whole.shape();
    Recording& made = add(name, dims, {shape.begin(), shape.end()}, group);
    for (int i = 0; i < N; ++i) {
      const auto at = static_cast<size_t>(i);
      whole = whole.slice(i, made.first[at], made.values.shape()[at]);
    }
    float* to = made.values.values().data();
    copy_values(whole, to);
  }

  // The recording of that name, scopes included, or null.
  const Recording* find(std::string_view name) const;

  const std::vector<Recording>& recordings() const { return recordings_; }
  std::vector<Recording>& recordings() { return recordings_; }

 private:
  // Row-major; advances `to`.
  template <int N>
  static void copy_values(const View<const float, N>& from, float*& to) {
    for (int64_t i = 0; i < from.size(0); ++i) {
      if constexpr (N == 1) {
        *to++ = from(i);
      } else {
        copy_values<N - 1>(from[i], to);
      }
    }
  }

  friend class TraceScope;

  TraceFilter filter_;
  std::string scope_;  // the open scopes, each followed by a dot
  std::vector<Recording> recordings_;
};

// While it lives, recordings of `trace` are prefixed with `name` and a dot. Scopes nest and must end in reverse order.
// A null trace is off.
class TraceScope {
 public:
  TraceScope(Trace* trace, std::string_view name);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  Trace* trace_;
  size_t before_ = 0;  // length of the enclosing scope
};

}  // namespace heed
