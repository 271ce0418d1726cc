#include "heed/nn/multihead_decoder.h"

#include "heed/attention/projection.h"
#include "heed/core/error.h"
#include "heed/core/extent.h"
#include "heed/core/memory.h"

namespace heed {
namespace {

constexpr const char* kAppend = "MultiHeadDecoder::append";

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
    : arena_(options.attention.arena == nullptr ? std::make_unique<Arena>() : nullptr),
      options_(options),
      sizes_(sizes_of(parameters, options)),
      weights_(parameters, options.weights),
      cache_(cache_options(options, sizes_.kv_heads, sizes_.d_k, sizes_.d_v)) {
  if (arena_) options_.attention.arena = arena_.get();
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
  const auto [heads, kv_heads, d_k, d_v] = sizes_;
  const View<const float, 4> k = heads_of(k_.view<3>(), kv_heads, d_k), v = heads_of(v_.view<3>(), kv_heads, d_v);
  chunks_.clear();
  for (int64_t n = 0; n < x.size(0); ++n) {
    chunks_.push_back({sequences_[static_cast<size_t>(n)], length_, k[n], v[n]});
  }
  cache_.append(chunks_);
  try {
    const View<float, 3> concat = shaped(concat_, {x.size(0), x.size(1), heads * d_v});
    attention_decode(cache_, sequences_, heads_of(q_.view<3>(), heads, d_k), options_.attention,
                     heads_of(concat, heads, d_v));
    project_heads(concat, projections_of(weights_).out, y, {}, options_.attention.arena);
  } catch (...) {
    truncate(length_);
    throw;
  }
  length_ += x.size(1);
}

int64_t MultiHeadDecoder::output_width() const {
  return weights_.out.columns() > 0 ? weights_.out.columns() : sizes_.heads * sizes_.d_v;
}

void MultiHeadDecoder::truncate(int64_t length) {
  for (const int64_t sequence : sequences_) cache_.truncate(sequence, length);
  length_ = length;
}

void MultiHeadDecoder::check_call(View<const float, 3> x, View<const float, 3> y) const {
  check_tokens(kAppend, "x", x, {options_.sequences, x.size(1), weights_.q.rows()});
  check_tokens(kAppend, "y", y, {x.size(0), x.size(1), output_width()});
  check(x.size(1) <= options_.capacity - length_, kAppend, "the sequences have ", length_, " tokens and ", x.size(1),
        " come, but the capacity is ", options_.capacity, "; truncate, or give options.capacity a larger value");
}

// q, k and v of the new tokens, at their positions.
void MultiHeadDecoder::project_in(View<const float, 3> x) {
  const Projections maps = projections_of(weights_);
  const auto project = [&](const LinearParameters& map, Tensor& to) {
    const View<float, 3> made = shaped(to, {x.size(0), x.size(1), map.outputs()});
    project_tokens(x, map, made, options_.attention.arena);
    return made;
  };
  const View<float, 4> q = heads_of(project(maps.q, q_), sizes_.heads, sizes_.d_k);
  const View<float, 4> k = heads_of(project(maps.k, k_), sizes_.kv_heads, sizes_.d_k);
  project(maps.v, v_);
  if (!rotary_) return;
  const RotaryPositions positions{.offset = length_};
  rotary_forward(q, *rotary_, positions, q);
  rotary_forward(k, *rotary_, positions, k);
}

}  // namespace heed
