#include "heed/nn/multihead_attention.h"

#include <algorithm>
#include <limits>

#include "heed/autograd/basic_ops.h"
#include "heed/autograd/linear_ops.h"
#include "heed/autograd/tape.h"
#include "heed/core/error.h"

namespace heed::nn {
namespace {

constexpr const char* kName = "nn::MultiheadAttention";

MultiheadAttentionOptions completed(MultiheadAttentionOptions options) {
  check(options.width > 0 && options.heads > 0 && options.width % options.heads == 0, kName, "width ", options.width,
        " and ", options.heads, " heads: both must be given, and the heads must divide the width");
  if (options.kv_heads == 0) options.kv_heads = options.heads;
  check(options.kv_heads > 0 && options.heads % options.kv_heads == 0, kName, "the ", options.heads,
        " heads must be a multiple of the ", options.kv_heads, " key/value heads");
  if (options.key_width == 0) options.key_width = options.width;
  if (options.value_width == 0) options.value_width = options.width;
  check(options.key_width > 0 && options.value_width > 0, kName, "key_width ", options.key_width, " and value_width ",
        options.value_width, "; both must be above 0");
  check(options.dropout >= 0.0F && options.dropout < 1.0F, kName, "dropout ", options.dropout, " is not in [0, 1)");
  check(options.rotary.width <= options.width / options.heads, kName, "rotary positions of width ",
        options.rotary.width, " in heads of width ", options.width / options.heads);
  check((!options.bias_kv && !options.zero_kv) || options.rotary.width == 0, kName,
        "bias_kv and zero_kv add keys that have no position, so they do not go with rotary positions");
  check((!options.bias_kv && !options.zero_kv) || !options.alibi, kName,
        "bias_kv and zero_kv add keys that have no position, so they do not go with ALiBi");
  return options;
}

// What is added to the scores of `all` keys [B, H, Tq, all] where keys were appended after those that the call knows:
// its bias, -∞ where its mask hides a key, and 0 for the appended ones. Null if the call has neither.
View<const float, 4> bias_of_all_keys(Tape& tape, const MultiheadAttentionCall& call, const MaskSizes& sizes,
                                      int64_t all) {
  call.mask.check_fits(kName, sizes);
  const View<const float, 4>& bias = call.bias;
  const bool has_bias = bias.data() != nullptr;
  if (!has_bias && call.mask.is_none()) return {};
  const auto fits = [&](int dimension, int64_t size) {
    return bias.size(dimension) == 1 || bias.size(dimension) == size;
  };
  check(!has_bias ||
            (fits(0, sizes.batch) && fits(1, sizes.heads) && bias.size(2) == sizes.t_q && bias.size(3) == sizes.t_k),
        kName, "the bias has shape ", bias.shape(), ", expected [", sizes.batch, " or 1, ", sizes.heads, " or 1, ",
        sizes.t_q, ", ", sizes.t_k, "]");
  const Shape<4> shape{sizes.batch, sizes.heads, sizes.t_q, all};
  const View<float, 4> result(tape.keep<float>(element_count(shape)), shape);
  const auto added = [&](int64_t b, int64_t h, int64_t i, int64_t j) {
    if (j >= sizes.t_k) return 0.0F;
    if (!call.mask.visible(sizes, b, h, i, j)) return -std::numeric_limits<float>::infinity();
    return has_bias ? bias(bias.size(0) == 1 ? 0 : b, bias.size(1) == 1 ? 0 : h, i, j) : 0.0F;
  };
  for (int64_t b = 0; b < sizes.batch; ++b) {
    for (int64_t h = 0; h < sizes.heads; ++h) {
      for (int64_t i = 0; i < sizes.t_q; ++i) {
        for (int64_t j = 0; j < all; ++j) result(b, h, i, j) = added(b, h, i, j);
      }
    }
  }
  return result;
}

}  // namespace

MultiheadAttention::MultiheadAttention(const MultiheadAttentionOptions& given)
    : out_proj(completed(given).width, given.width, {.bias = given.bias}), options(completed(given)) {
  const int64_t width = options.width;
  const int64_t kv_width = width / options.heads * options.kv_heads;
  if (options.key_width == width && options.value_width == width) {
    in_proj_weight = Parameter({width + 2 * kv_width, width});
  } else {
    q_proj_weight = Parameter({width, width});
    k_proj_weight = Parameter({kv_width, options.key_width});
    v_proj_weight = Parameter({kv_width, options.value_width});
  }
  if (options.bias) in_proj_bias = Parameter({width + 2 * kv_width});
  if (options.bias_kv) {
    bias_k = Parameter({1, 1, kv_width});
    bias_v = Parameter({1, 1, kv_width});
  }
  if (options.rotary.width != 0) rotary_ = std::make_shared<const RotaryTable>(options.rotary);
  if (options.alibi) alibi_slopes_ = alibi_slopes(options.heads);
}

// out_proj's weight has been drawn as of any linear map; its bias starts at 0 like the others here.
void MultiheadAttention::initialise(Initialiser& draw) {
  draw.xavier_uniform(in_proj_weight);
  draw.xavier_uniform(q_proj_weight);
  draw.xavier_uniform(k_proj_weight);
  draw.xavier_uniform(v_proj_weight);
  draw.constant(in_proj_bias, 0.0F);
  draw.constant(out_proj.bias, 0.0F);
  draw.xavier_normal(bias_k);
  draw.xavier_normal(bias_v);
}

MultiHeadVars MultiheadAttention::vars(Tape& tape) const {
  MultiHeadVars result;
  result.in_weight = tape.optional_parameter(in_proj_weight);
  result.q_weight = tape.optional_parameter(q_proj_weight);
  result.k_weight = tape.optional_parameter(k_proj_weight);
  result.v_weight = tape.optional_parameter(v_proj_weight);
  result.in_bias = tape.optional_parameter(in_proj_bias);
  result.out_weight = tape.parameter(out_proj.weight);
  result.out_bias = tape.optional_parameter(out_proj.bias);
  return result;
}

// The slopes are copied, so that the module may be gone when backward runs.
AttentionOptions MultiheadAttention::attention_options(Tape& tape) const {
  AttentionOptions result;
  result.scores.dropout.probability = options.dropout;
  if (options.alibi) {
    float* const slopes = tape.keep<float>(options.heads);
    std::copy(alibi_slopes_.begin(), alibi_slopes_.end(), slopes);
    result.scores.alibi_slopes = {slopes, {options.heads}};
  }
  return result;
}

Var MultiheadAttention::operator()(const Var& query, const Var& key, const Var& value,
                                   const MultiheadAttentionCall& call) const {
  check(query.rank() == 3 && key.rank() == 3 && value.rank() == 3 && query.size(2) == options.width &&
            key.size(2) == options.key_width && value.size(2) == options.value_width,
        kName, "query ", query.shape(), ", key ", key.shape(), " and value ", value.shape(), ", expected [B, Tq, ",
        options.width, "], [B, Tk, ", options.key_width, "] and [B, Tk, ", options.value_width, "]");
  check(query.size(0) == key.size(0) && key.size(0) == value.size(0) && key.size(1) == value.size(1), kName, "query ",
        query.shape(), ", key ", key.shape(), " and value ", value.shape(),
        " differ in the batch, or key and value in their tokens");
  if (options.bias_kv || options.zero_kv) return with_appended_keys(query, key, value, call);
  MultiHeadOpOptions layer;
  layer.heads = options.heads;
  layer.kv_heads = options.kv_heads;
  layer.attention = attention_options(query.tape());
  layer.attention.mask = call.mask;
  layer.attention.scores.bias = call.bias;
  layer.rotary = rotary_;
  layer.residual = call.residual;
  return multihead(query, key, value, vars(query.tape()), layer);
}

// Keys and values get a few more after the last, which every query sees whatever the mask says.
Var MultiheadAttention::with_appended_keys(const Var& query, const Var& key, const Var& value,
                                           const MultiheadAttentionCall& call) const {
  Tape& tape = query.tape();
  const int64_t batch = query.size(0);
  const int64_t t_q = query.size(1);
  const int64_t d = options.width / options.heads;
  const int64_t kv_width = d * options.kv_heads;
  const MultiHeadVars p = vars(tape);
  // By rows from … from + count of the three weights.
  const auto project = [&](const Var& x, const Var& own, int64_t from, int64_t count) {
    const Var weight = p.in_weight.given() ? slice(p.in_weight, 0, from, from + count) : own;
    return linear(x, weight, p.in_bias.given() ? slice(p.in_bias, 0, from, from + count) : Var());
  };
  const Var q = project(query, p.q_weight, 0, options.width);
  Var k = project(key, p.k_weight, options.width, kv_width);
  Var v = project(value, p.v_weight, options.width + kv_width, kv_width);
  float* const nothing = tape.keep<float>(batch * kv_width);
  std::fill_n(nothing, batch * kv_width, 0.0F);
  const Var zeros = tape.constant(nothing, {batch, 1, kv_width});
  if (options.bias_kv) {
    k = concat({k, zeros + tape.parameter(bias_k)}, 1);
    v = concat({v, zeros + tape.parameter(bias_v)}, 1);
  }
  if (options.zero_kv) {
    k = concat({k, zeros}, 1);
    v = concat({v, zeros}, 1);
  }
  const int64_t all = k.size(1);
  AttentionOptions attended = attention_options(tape);
  attended.scores.bias = bias_of_all_keys(tape, call, {batch, options.heads, t_q, key.size(1)}, all);
  const Var heads = attention(q.reshape({batch, t_q, options.heads, d}), k.reshape({batch, all, options.kv_heads, d}),
                              v.reshape({batch, all, options.kv_heads, d}), attended);
  return linear(heads.reshape({batch, t_q, options.width}), p.out_weight, p.out_bias, {.residual = call.residual});
}

}  // namespace heed::nn
