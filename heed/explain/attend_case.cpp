#include "heed/explain/attend_case.h"

#include <charconv>
#include <cmath>

#include "heed/attention/trace_steps.h"
#include "heed/explain/number_text.h"

namespace heed::explain {
namespace {

View<const float, 2> matrix(const Tensor& weight) {
  return weight.count() == 0 ? View<const float, 2>() : weight.view<2>();
}
View<const float, 1> vector(const Tensor& bias) { return bias.count() == 0 ? View<const float, 1>() : bias.view<1>(); }

// Position of query 0 among the keys.
int64_t query_offset(const AttendCase& given, const AttendSizes& sizes) {
  if (given.align == Align::bottom_right) return sizes.t_k - sizes.t_q;
  check(given.align == Align::top_left || sizes.t_q == sizes.t_k, "attend", sizes.t_q, " queries stand among ",
        sizes.t_k, " keys; say where: bottom-right (the last query at the last key) or top-left");
  return 0;
}

// A dense mask of the given rank, its queries cut to `rows`.
template <int N>
Mask dense_mask(const DenseMask& dense, const QueryRange& rows) {
  Shape<N> shape{};
  std::copy_n(dense.shape.begin(), N, shape.begin());
  const auto values = View<const bool, N>(dense.values.get(), shape).slice(N - 2, rows.begin, rows.count());
  return dense.keep ? Mask::keep(values) : Mask::block(values);
}

Mask mask_of(const AttendCase& given, const AttendSizes& sizes, const QueryRange& rows) {
  Mask mask;
  if (given.causal) mask = mask & Mask::causal(QueryPositions::from(query_offset(given, sizes) + rows.begin));
  if (given.window) {
    const QueryPositions positions = QueryPositions::from(query_offset(given, sizes) + rows.begin);
    mask = mask & Mask::window(given.window->left, given.window->right, positions);
  }
  if (!given.lengths.empty()) mask = mask & Mask::lengths(given.lengths);
  if (given.dense.values == nullptr) return mask;
  switch (given.dense.shape.size()) {
    case 2:
      return mask & dense_mask<2>(given.dense, rows);
    case 3:
      return mask & dense_mask<3>(given.dense, rows);
    default:
      return mask & dense_mask<4>(given.dense, rows);
  }
}

}  // namespace

MultiHeadParameters<const float> Layer::parameters() const {
  return {matrix(q),      matrix(k),      matrix(v),      matrix(out),
          vector(q_bias), vector(k_bias), vector(v_bias), vector(out_bias)};
}

AttendSizes sizes_of(const AttendCase& given) {
  if (!given.layer.given()) {
    return {given.q.shape()[0], given.q.shape()[1], given.k.shape()[1], given.q.shape()[2],
            given.k.shape()[2], given.q.shape()[3], given.v.shape()[3]};
  }
  const int64_t kv_heads = given.kv_heads == 0 ? given.heads : given.kv_heads;
  const Tensor& keys = given.is_self() ? given.x : given.context;
  return {given.x.shape()[0],
          given.x.shape()[1],
          keys.shape()[1],
          given.heads,
          kv_heads,
          given.layer.q.shape()[0] / given.heads,
          given.layer.v.shape()[0] / kv_heads};
}

float scale_of(const AttendCase& given) {
  return given.scale.value_or(static_cast<float>(1.0 / std::sqrt(static_cast<double>(sizes_of(given).d_k))));
}

AttentionOptions options_of(const AttendCase& given, const QueryRange& rows) {
  const AttendSizes sizes = sizes_of(given);
  AttentionOptions options;
  options.mask = mask_of(given, sizes, rows);
  options.scale = given.scale;
  options.scores.soft_cap = given.soft_cap;
  if (given.alibi_slopes.count() > 0) {
    options.scores.alibi_slopes = given.alibi_slopes.view<1>();
    options.scores.positions = QueryPositions::from(query_offset(given, sizes) + rows.begin);
  }
  if (given.bias.count() > 0) options.scores.bias = given.bias.view<4>().slice(2, rows.begin, rows.count());
  if (given.sinks.count() > 0) options.scores.sinks = given.sinks.view<1>();
  if (given.sigmoid) options.scores.normaliser = Normaliser::sigmoid;
  return options;
}

std::vector<std::string> option_names(const AttendCase& given) {
  std::vector<std::string> names;
  if (given.soft_cap) names.push_back("soft cap " + shortest(*given.soft_cap));
  if (given.alibi_slopes.count() > 0) names.emplace_back("ALiBi");
  if (given.bias.count() > 0) names.emplace_back("bias");
  if (given.sinks.count() > 0) names.emplace_back("sink");
  return names;
}

std::vector<std::string> step_names(const AttendCase& given) {
  std::vector<std::string> names;
  if (given.layer.given()) names.emplace_back("x");
  if (given.layer.given() && !given.is_self()) names.emplace_back("context");
  for (const char* name : {"q", "k", "v", "scores", "scaled"}) names.emplace_back(name);
  if (given.soft_cap) names.emplace_back("capped");
  if (given.alibi_slopes.count() > 0 || given.bias.count() > 0) names.emplace_back("biased");
  if (hides_keys(options_of(given, {0, sizes_of(given).t_q}))) names.emplace_back("masked");
  names.emplace_back("weights");
  names.emplace_back("heads");
  if (given.layer.given() || sizes_of(given).heads > 1) names.emplace_back("concat");
  if (given.layer.out.count() > 0) names.emplace_back("out");
  return names;
}

}  // namespace heed::explain
