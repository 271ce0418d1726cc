// Gradients by central differences of the double reference, to check backward against.
#pragma once

#include <string>
#include <vector>

#include "heed/attention/reference_row.h"
#include "heed/explain/attend.h"

namespace heed::explain {

// The loss is L = Σ d_out · output. Each entry is perturbed by ±h and L is recomputed over the rows it affects. Of
// large tensors, only an evenly spread sample of entries is checked; none if even one would take too long.
class FiniteDifference {
 public:
  FiniteDifference(const AttendCase& given, const Tensor& d_out);

  // The recorded gradient with its largest difference from finite differences.
  Gradient checked(Recording recording);

 private:
  // The heads and rows over which L is computed.
  struct Part {
    int64_t b_begin = 0, b_end = 0, h_begin = 0, h_end = 0, i_begin = 0, i_end = 0;
  };
  // A number to perturb, by factor · ±h. One entry of a gradient may move several.
  struct Move {
    double* at = nullptr;
    double factor = 1.0;
  };

  void fill_inputs();
  void fill_d_heads();
  void fill_concat();
  void project(const Tensor& tokens, View<const float, 2> w, View<const float, 1> bias, std::vector<double>& to) const;
  double loss(const Part& part) const;
  double slope(const std::vector<Move>& moves, const Part& part) const;
  double slope_at(const Recording& recording, int64_t entry);
  double slope_of_weight(int64_t b, int64_t h, int64_t i, int64_t j) const;
  double slope_of_w_o(int64_t in, int64_t out) const;
  std::vector<Move> moves_of_column(std::vector<double>& projected, const Tensor& tokens, int64_t in,
                                    int64_t out) const;
  int64_t cost(AttentionStep step) const;
  Part heads_of(int64_t kv_head) const;

  const AttendCase& given_;
  const Tensor& d_out_;
  AttendSizes s_;
  bool too_large_ = false;         // to project in double
  std::vector<double> q_, k_, v_;  // [B, T, H, D]
  std::vector<double> d_heads_;    // [B, Tq, H, Dv]
  std::vector<double> concat_;     // [B, Tq, H·Dv]
  std::vector<double> bias_, slopes_, sinks_;
  reference::Inputs<double> in_;
};

}  // namespace heed::explain
