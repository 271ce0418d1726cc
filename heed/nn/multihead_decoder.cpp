#include "heed/nn/multihead_decoder.h"

#include "heed/core/error.h"
#include "heed/core/extent.h"
#include "heed/core/memory.h"
#include "heed/ops/linear.h"

namespace heed {
namespace {

constexpr const char* kAppend = "MultiHeadDecoder::append";

// [N, T, …] with evenly spaced rows as the matrix [N·T, width].
template <class T>
View<T, 2> as_rows(const View<T, 3>& view) {
  const int64_t step = view.size(1) == 1 ? view.stride(0) : view.stride(1);
  return {view.data(), {view.size(0) * view.size(1), view.size(2)}, {step, view.stride(2)}};
}
View<float, 2> as_rows(Tensor& tensor) {
  const int64_t rows = tensor.shape()[0] * tensor.shape()[1];
  return {tensor.values().data(), {rows, tensor.shape()[2] * tensor.shape()[3]}};
}

LinearParameters packed_map(const PackedMatrix& weight, const Tensor& bias) {
  return {.packed = &weight, .bias = bias.count() > 0 ? bias.view<1>() : View<const float, 1>()};
}

View<float, 4> shaped(Tensor& tensor, const std::vector<int64_t>& shape) {
  if (tensor.shape() != shape) tensor = Tensor(shape);
  return tensor.view<4>();
}

void check_tokens(const char* name, View<const float, 3> view, const Shape<3>& expected) {
  check_given(kAppend, name, view);
  check(view.shape() == expected, kAppend, name, " has shape ", view.shape(), ", expected ", expected);
  check_view(kAppend, name, view);
  check(view.size(0) <= 1 || view.size(1) <= 1 || view.stride(0) == view.size(1) * view.stride(1), kAppend, name,
        " has strides ", view.strides(), "; the rows of all items must be evenly spaced: copy it first");
}

KvCacheOptions cache_options(const MultiHeadDecoderOptions& options, int64_t kv_heads, int64_t d_k, int64_t d_v) {
  const int64_t sequence_keys = round_up(options.capacity, kPageKeys);
  return {.capacity = multiply_saturating(options.sequences, sequence_keys),
          .sequences = options.sequences,
          .kv_heads = kv_heads,
          .d_k = d_k,
          .d_v = d_v,
          .storage = options.cache};
}

}  // namespace

// What multihead_forward makes of the layer with no tokens: it refuses weights that do not fit.
MultiHeadDecoder::HeadSizes MultiHeadDecoder::sizes_of(const MultiHeadParameters<const float>& p,
                                                       const MultiHeadDecoderOptions& options) {
  constexpr const char* kName = "MultiHeadDecoder";
  check(options.capacity >= 1 && options.capacity <= kMostLength, kName, "options.capacity is ", options.capacity,
        "; give how many tokens a sequence may have");
  check(options.sequences >= 1, kName, "options.sequences is ", options.sequences, "; give 1 or more");
  check(options.attention.causal, kName,
        "options.attention.causal is false, but a token sees those before it and itself");
  check(options.attention.scores.bias.data() == nullptr, kName,
        "options.attention has a dense bias, which has the sizes of one call; use attention_decode");
  const int64_t kv_heads = options.kv_heads == 0 ? options.heads : options.kv_heads;
  const int64_t width = p.out.data() != nullptr ? p.out.size(0)
                        : kv_heads > 0          ? p.v.size(0) / kv_heads * options.heads
                                                : 0;
  const Tensor x({1, 0, p.q.size(1)});
  Tensor y({1, 0, width});
  MultiHeadState state;
  MultiHeadOptions layer;
  layer.heads = options.heads;
  layer.kv_heads = options.kv_heads;
  multihead_forward(MultiHeadInputs::self(x.view<3>()), p, layer, state, y.view<3>());
  return {options.heads, kv_heads, state.attention.q.size(3), state.attention.v.size(3)};
}

MultiHeadDecoder::MultiHeadDecoder(const MultiHeadParameters<const float>& parameters,
                                   const MultiHeadDecoderOptions& options)
    : options_(options),
      sizes_(sizes_of(parameters, options)),
      weights_(parameters, options.weights),
      cache_(cache_options(options, sizes_.kv_heads, sizes_.d_k, sizes_.d_v)) {
  for (int64_t n = 0; n < options.sequences; ++n) sequences_.push_back(cache_.add());
  if (options.rotary.width == 0) return;
  RotaryOptions rotary = options.rotary;
  rotary.first = 0;
  rotary.positions = options.capacity;
  rotary_.emplace(rotary);
  for (const int64_t heads : {sizes_.heads, sizes_.kv_heads}) {
    check_rotary("MultiHeadDecoder", "a head", {1, options.capacity, heads, sizes_.d_k}, *rotary_, {});
  }
}

Tensor MultiHeadDecoder::append(const Tensor& x) {
  check(x.rank() == 3, kAppend, "x has shape ", x.shape(), ", expected [N, T, C]");
  Tensor y({x.shape()[0], x.shape()[1], output_width()});
  append(x.view<3>(), y.view<3>());
  return y;
}

void MultiHeadDecoder::append(View<const float, 3> x, View<float, 3> y) {
  check_call(x, y);
  if (x.size(1) == 0) return;
  project_in(x);
  std::vector<KvChunk> chunks;
  for (int64_t n = 0; n < x.size(0); ++n) {
    chunks.push_back({sequences_[static_cast<size_t>(n)], length_, k_.view<4>()[n], v_.view<4>()[n]});
  }
  cache_.append(chunks);
  try {
    attention_decode(cache_, sequences_, q_.view<4>(), options_.attention, heads_.view<4>());
    project_out(y);
  } catch (...) {
    truncate(length_);
    throw;
  }
  length_ += x.size(1);
}

// y of the heads of the call at hand.
void MultiHeadDecoder::project_out(View<float, 3> y) {
  const View<const float, 2> heads = as_rows(heads_);
  const View<float, 2> to = as_rows(y);
  if (weights_.out.columns() > 0) {
    return linear_forward(heads, packed_map(weights_.out, weights_.out_bias), to, {.arena = options_.attention.arena});
  }
  for (int64_t i = 0; i < to.size(0); ++i) {
    for (int64_t c = 0; c < to.size(1); ++c) to(i, c) = heads(i, c);
  }
}

int64_t MultiHeadDecoder::output_width() const {
  return weights_.out.columns() > 0 ? weights_.out.columns() : sizes_.heads * sizes_.d_v;
}

void MultiHeadDecoder::truncate(int64_t length) {
  for (const int64_t sequence : sequences_) cache_.truncate(sequence, length);
  length_ = length;
}

void MultiHeadDecoder::check_call(View<const float, 3> x, View<const float, 3> y) const {
  check_tokens("x", x, {options_.sequences, x.size(1), weights_.q.rows()});
  check_tokens("y", y, {x.size(0), x.size(1), output_width()});
  check(x.size(1) <= options_.capacity - length_, kAppend, "the sequences have ", length_, " tokens and ", x.size(1),
        " come, but the capacity is ", options_.capacity, "; truncate, or give options.capacity a larger value");
}

// q, k and v of the new tokens, at their positions.
void MultiHeadDecoder::project_in(View<const float, 3> x) {
  const int64_t n = x.size(0), t = x.size(1);
  const auto [heads, kv_heads, d_k, d_v] = sizes_;
  const View<float, 4> q = shaped(q_, {n, t, heads, d_k});
  const View<float, 4> k = shaped(k_, {n, t, kv_heads, d_k});
  shaped(v_, {n, t, kv_heads, d_v});
  shaped(heads_, {n, t, heads, d_v});
  const auto project = [&](const PackedMatrix& weight, const Tensor& bias, Tensor& to) {
    linear_forward(as_rows(x), packed_map(weight, bias), as_rows(to), {.arena = options_.attention.arena});
  };
  project(weights_.q, weights_.q_bias, q_);
  project(weights_.k, weights_.k_bias, k_);
  project(weights_.v, weights_.v_bias, v_);
  if (!rotary_) return;
  const RotaryPositions positions{.offset = length_};
  rotary_forward(q, *rotary_, positions, q);
  rotary_forward(k, *rotary_, positions, k);
}

}  // namespace heed
