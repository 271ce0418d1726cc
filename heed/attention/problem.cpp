#include "heed/attention/problem.h"

#include <cmath>

namespace heed {
namespace {

void check_memory(const char* function, const char* name, View<const float, 4> tensor) {
  check_given(function, name, tensor);
  check_view(function, name, tensor);
  check(tensor.size(3) <= 1 || tensor.stride(3) == 1, function, name, " has strides ", tensor.strides(),
        "; its last dimension must be contiguous (stride 1): copy it first");
}

}  // namespace

void check_tensor(const char* function, const char* name, View<const float, 4> tensor, const Shape<4>& expected) {
  check_given(function, name, tensor);
  check(tensor.shape() == expected, function, name, " has shape ", tensor.shape(), ", expected ", expected);
  check_memory(function, name, tensor);
}

void check_rows(const char* function, const RowStates<const float>& rows, const MaskSizes& sizes, bool required) {
  const bool absent = rows.shift.data() == nullptr && rows.sum.data() == nullptr;
  const Shape<3> expected{sizes.batch, sizes.heads, sizes.t_q};
  if (absent && (!required || element_count(expected) == 0)) return;
  check(rows.shift.data() != nullptr && rows.sum.data() != nullptr, function,
        "row states need both views, shift and sum, but ", rows.sum.data() == nullptr ? "sum" : "shift",
        " is a null view", required ? ": keep them from attention_forward" : "");
  check(rows.shift.shape() == expected && rows.sum.shape() == expected, function, "row states have shapes ",
        rows.shift.shape(), " and ", rows.sum.shape(), ", expected [B, H, Tq] = ", expected);
  check_extent(function, "shift", rows.shift);
  check_extent(function, "sum", rows.sum);
}

Problem check_problem(const char* function, const AttentionInputs& inputs, const AttentionOptions& options) {
  const View<const float, 4>& q = inputs.q;
  const View<const float, 4>& k = inputs.k;
  const View<const float, 4>& v = inputs.v;
  const auto shapes = [&] {
    return "q " + to_text(q.shape()) + ", k " + to_text(k.shape()) + ", v " + to_text(v.shape());
  };
  check_memory(function, "q", q);
  check_memory(function, "k", k);
  check_memory(function, "v", v);
  check(q.size(0) == k.size(0) && q.size(0) == v.size(0), function, "batch sizes differ: ", shapes);
  check(k.size(1) == v.size(1), function, "k and v must have the same length Tk: ", shapes);
  check(k.size(2) == v.size(2), function, "k and v must have the same number of heads: ", shapes);
  check(q.size(3) == k.size(3), function, "q and k must have the same width Dk: ", shapes);
  check(q.size(3) > 0 && v.size(3) > 0, function, "widths Dk and Dv must be at least 1: ", shapes);
  check(q.size(2) > 0, function, "q has no heads: ", shapes);
  check(k.size(2) > 0, function, "k and v have no heads: ", shapes);
  check(q.size(2) % k.size(2) == 0, function, "the ", q.size(2), " query heads must be a multiple of the ", k.size(2),
        " key/value heads: ", shapes);
  check(q.size(3) <= kMostWidth && v.size(3) <= kMostWidth, function, "widths above 2^30: ", shapes);

  Problem problem;
  problem.sizes = {q.size(0), q.size(2), q.size(1), k.size(1)};
  problem.kv_heads = k.size(2);
  problem.d_k = q.size(3);
  problem.d_v = v.size(3);
  const double scale =
      options.scale ? static_cast<double>(*options.scale) : 1.0 / std::sqrt(static_cast<double>(problem.d_k));
  problem.scale = static_cast<float>(scale);
  problem.score_factor = static_cast<float>(scale * kLog256E);
  check(std::isfinite(problem.score_factor), function, "scale is ", problem.scale, "; it must be finite");
  options.mask.check_fits(function, problem.sizes);
  options.scores.check_fits(function, problem.sizes, options.mask);
  return problem;
}

}  // namespace heed
