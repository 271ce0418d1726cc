#include "heed/nn/transformer.h"

#include "heed/autograd/layer_ops.h"
#include "heed/autograd/tape.h"
#include "heed/core/error.h"
#include "heed/nn/module.h"

namespace heed::nn {
namespace {

MultiheadAttention self_attention(const TransformerOptions& o) {
  MultiheadAttentionOptions result;
  result.width = o.width;
  result.heads = o.heads;
  result.kv_heads = o.kv_heads;
  result.bias = o.bias;
  result.dropout = o.dropout;
  result.rotary = o.rotary;
  result.alibi = o.alibi;
  return MultiheadAttention(result);
}

MultiheadAttention cross_attention(const TransformerOptions& o) {
  MultiheadAttentionOptions result;
  result.width = o.width;
  result.heads = o.heads;
  result.bias = o.bias;
  result.dropout = o.dropout;
  return MultiheadAttention(result);
}

LayerNorm layer_norm_of(const TransformerOptions& o) { return LayerNorm(o.width, {.eps = o.eps, .bias = o.bias}); }

// y = residual + dropout(f(x)). Where nothing is dropped, f adds the residual itself.
template <class F>
Var add_block(const Var& residual, float dropout_rate, F f) {
  if (dropout_rate == 0.0F || !residual.tape().training()) return f(residual);
  return dropout(f(Var()), dropout_rate, residual);
}

// A block with its norm before it or after it.
template <class F>
Var normed_block(const Var& x, const LayerNorm& norm, const TransformerOptions& o, F f) {
  const Var in = o.norm_first ? norm(x) : x;
  const Var y = add_block(x, o.dropout, [&](const Var& residual) { return f(in, residual); });
  return o.norm_first ? y : norm(y);
}

// linear1, activation, dropout, linear2, and the residual unless it is empty.
template <class Layer>
Var feed_forward_of(const Layer& layer, const Var& in, const Var& residual) {
  const TransformerOptions& o = layer.options;
  Tape& tape = in.tape();
  if (o.dropout > 0.0F && tape.training()) {
    const Var hidden = layer.linear1(in, {.activation = o.activation});
    return layer.linear2(dropout(hidden, o.dropout), {.residual = residual});
  }
  const FeedForwardVars parameters{tape.parameter(layer.linear1.weight), tape.optional_parameter(layer.linear1.bias),
                                   tape.parameter(layer.linear2.weight), tape.optional_parameter(layer.linear2.bias)};
  return feed_forward(in, parameters, {.activation = o.activation, .residual = residual});
}

template <class Layer>
std::vector<Layer> stack(const TransformerOptions& options) {
  check(options.layers > 0, "nn::Transformer", options.layers, " layers; there must be at least 1");
  return std::vector<Layer>(static_cast<size_t>(options.layers), Layer(options));
}

std::optional<LayerNorm> last_norm(const TransformerOptions& options) {
  return options.final_norm ? std::optional(layer_norm_of(options)) : std::nullopt;
}

TransformerOptions side(TransformerOptions options, int64_t layers) {
  options.layers = layers;
  options.final_norm = true;
  return options;
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(const TransformerOptions& o)
    : self_attn(self_attention(o)),
      linear1(o.width, o.feed_forward, {.bias = o.bias}),
      linear2(o.feed_forward, o.width, {.bias = o.bias}),
      norm1(layer_norm_of(o)),
      norm2(layer_norm_of(o)),
      options(o) {}

Var TransformerEncoderLayer::operator()(const Var& x, const Mask& mask) const {
  const Var attended = normed_block(x, norm1, options, [&](const Var& in, const Var& residual) {
    return self_attn(in, {.mask = mask, .residual = residual});
  });
  return normed_block(attended, norm2, options,
                      [&](const Var& in, const Var& residual) { return feed_forward_of(*this, in, residual); });
}

TransformerDecoderLayer::TransformerDecoderLayer(const TransformerOptions& o)
    : self_attn(self_attention(o)),
      multihead_attn(cross_attention(o)),
      linear1(o.width, o.feed_forward, {.bias = o.bias}),
      linear2(o.feed_forward, o.width, {.bias = o.bias}),
      norm1(layer_norm_of(o)),
      norm2(layer_norm_of(o)),
      norm3(layer_norm_of(o)),
      options(o) {}

Var TransformerDecoderLayer::operator()(const Var& x, const Var& memory, const Mask& mask,
                                        const Mask& memory_mask) const {
  const Var attended = normed_block(x, norm1, options, [&](const Var& in, const Var& residual) {
    return self_attn(in, {.mask = mask, .residual = residual});
  });
  const Var crossed = normed_block(attended, norm2, options, [&](const Var& in, const Var& residual) {
    return multihead_attn(in, memory, memory, {.mask = memory_mask, .residual = residual});
  });
  return normed_block(crossed, norm3, options,
                      [&](const Var& in, const Var& residual) { return feed_forward_of(*this, in, residual); });
}

TransformerEncoder::TransformerEncoder(const TransformerOptions& options)
    : layers(stack<TransformerEncoderLayer>(options)), norm(last_norm(options)) {}

Var TransformerEncoder::operator()(Var x, const Mask& mask) const {
  for (const TransformerEncoderLayer& layer : layers) x = layer(x, mask);
  return norm ? (*norm)(x) : x;
}

TransformerDecoder::TransformerDecoder(const TransformerOptions& options)
    : layers(stack<TransformerDecoderLayer>(options)), norm(last_norm(options)) {}

Var TransformerDecoder::operator()(Var x, const Var& memory, const Mask& mask, const Mask& memory_mask) const {
  for (const TransformerDecoderLayer& layer : layers) x = layer(x, memory, mask, memory_mask);
  return norm ? (*norm)(x) : x;
}

Transformer::Transformer(const TransformerOptions& options)
    : encoder(side(options, options.layers)), decoder(side(options, options.decoder_layers)) {}

Var Transformer::operator()(const Var& source, const Var& target, const TransformerMasks& masks) const {
  return decoder(target, encoder(source, masks.source), masks.target, masks.memory);
}

void Transformer::initialise(Initialiser& draw) {
  for (const NamedParameter& each : parameters(*this)) {
    if (each.parameter->shape().rank() > 1) draw.xavier_uniform(*each.parameter);
  }
}

}  // namespace heed::nn
