#include "heed/nn/multihead_weights.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "heed/io/safetensors.h"

namespace heed {
namespace {

template <class T, class Weights>
MultiHeadParameters<T> views_of(Weights& weights) {
  MultiHeadParameters<T> views;
  T* at = weights.in.values().data();
  T* bias_at = weights.in_bias.values().data();
  const auto cut = [&](const Shape<2>& shape, View<T, 2>& weight, View<T, 1>& bias) {
    weight = {at, shape};
    at += element_count(shape);
    if (bias_at == nullptr) return;
    bias = {bias_at, {shape[0]}};
    bias_at += shape[0];
  };
  cut(weights.in_shapes[0], views.q, views.q_bias);
  cut(weights.in_shapes[1], views.k, views.k_bias);
  cut(weights.in_shapes[2], views.v, views.v_bias);
  if (weights.out.count() > 0) views.out = weights.out.template view<2>();
  if (weights.out_bias.count() > 0) views.out_bias = weights.out_bias.template view<1>();
  return views;
}

// The tensors of one layer by name, each of the rank it should have.
class StateDict {
 public:
  StateDict(const std::string& path, std::string prefix) : file_(path), prefix_(std::move(prefix)) {}

  bool has(const std::string& name) const { return file_.has(prefix_ + name); }

  Tensor read(const std::string& name, int rank) const {
    Tensor tensor = file_.read(prefix_ + name).values;
    if (tensor.rank() != rank || tensor.count() == 0) {
      refuse(prefix_ + name + " has shape " + to_text(tensor.shape()),
             rank == 2 ? "a weight is [outputs, inputs]" : "a bias is [outputs]");
    }
    return tensor;
  }

  // Empty where there is none.
  Tensor read_bias(const std::string& name, int64_t outputs) const {
    if (!has(name)) return {};
    Tensor bias = read(name, 1);
    if (bias.count() != outputs) {
      refuse(prefix_ + name + " has " + std::to_string(bias.count()) + " values for " + std::to_string(outputs) +
                 " outputs",
             "weight and bias must be of one layer");
    }
    return bias;
  }

  void check_heads_divide(int64_t width, int64_t heads) const {
    if (heads > 0 && width % heads != 0) throw io::FileError(file_.path(), undivided_heads(width, heads));
  }

  std::string names() const {
    std::string text;
    for (const std::string& name : file_.names()) {
      if (text.size() > 200) return text + ", …";
      text += text.empty() ? name : ", " + name;
    }
    return text.empty() ? "nothing" : text;
  }

  [[noreturn]] void refuse(const std::string& message, const std::string& hint) const {
    throw io::FileError(file_.path(), {.what = message, .hint = hint});
  }

 private:
  io::SafetensorsFile file_;
  std::string prefix_;
};

// W_Q, W_K and W_V in one matrix, one after the other.
void read_fused(const StateDict& dict, const HeadCounts& counts, MultiHeadWeights& layer) {
  layer.in = dict.read("in_proj_weight", 2);
  const int64_t outputs = layer.in.shape()[0], inputs = layer.in.shape()[1];
  const bool grouped = counts.kv_heads != counts.heads;
  if (!grouped && outputs % 3 == 0) dict.check_heads_divide(outputs / 3, counts.heads);
  const int64_t heads = grouped ? counts.heads : 1, kv_heads = grouped ? counts.kv_heads : 1;
  const int64_t shares = heads + 2 * kv_heads;
  if (outputs % shares != 0) {
    const std::string parts =
        grouped ? std::to_string(heads) + " + 2*" + std::to_string(kv_heads) + " heads" : "three parts";
    dict.refuse("in_proj_weight has " + std::to_string(outputs) + " rows, which " + parts + " do not divide",
                "its rows are those of W_Q, W_K and W_V, one after the other");
  }
  const int64_t width = outputs / shares;
  const int64_t q = heads * width, kv = kv_heads * width;
  layer.in_shapes = {{{q, inputs}, {kv, inputs}, {kv, inputs}}};
  layer.in_bias = dict.read_bias("in_proj_bias", outputs);
}

// Each in a matrix of its own: kdim or vdim differ.
void read_separate(const StateDict& dict, const HeadCounts& counts, MultiHeadWeights& layer) {
  const auto& [heads, kv_heads] = counts;
  layer =
      MultiHeadWeights::of(dict.read("q_proj_weight", 2), dict.read("k_proj_weight", 2), dict.read("v_proj_weight", 2));
  const int64_t q = layer.in_shapes[0][0], k = layer.in_shapes[1][0], v = layer.in_shapes[2][0];
  dict.check_heads_divide(q, heads);
  dict.check_heads_divide(v, kv_heads);
  if (k * heads != q * kv_heads) {
    dict.refuse("q_proj_weight has " + std::to_string(q) + " rows for " + std::to_string(heads) +
                    " heads, k_proj_weight " + std::to_string(k) + " for " + std::to_string(kv_heads),
                "queries and keys of a head must be of one width");
  }
  layer.in_bias = dict.read_bias("in_proj_bias", q + k + v);
}

// The width of the heads side by side follows from the counts; without them PyTorch's layer has as many of both.
void read_out(const StateDict& dict, const HeadCounts& counts, MultiHeadWeights& layer) {
  layer.out = dict.read("out_proj.weight", 2);
  const int64_t v = layer.in_shapes[2][0];
  const int64_t concat = counts.heads > 0 ? v / counts.kv_heads * counts.heads : v;
  if (layer.out.shape()[1] != concat) {
    dict.refuse("out_proj.weight has shape " + to_text(layer.out.shape()) + ", but the heads side by side have width " +
                    std::to_string(concat),
                "it is [outputs, heads * width of a value]; state both counts where there are fewer key/value heads");
  }
  layer.out_bias = dict.read_bias("out_proj.bias", layer.out.shape()[0]);
}

}  // namespace

MultiHeadWeights MultiHeadWeights::of(const Tensor& q, const Tensor& k, const Tensor& v, Tensor out) {
  MultiHeadWeights made;
  made.in_shapes = {q.view<2>().shape(), k.view<2>().shape(), v.view<2>().shape()};
  made.in = Tensor({q.count() + k.count() + v.count()});
  auto to = made.in.values().begin();
  for (const Tensor* each : {&q, &k, &v}) to = std::copy(each->values().begin(), each->values().end(), to);
  made.out = std::move(out);
  return made;
}

MultiHeadParameters<float> MultiHeadWeights::parameters() & { return views_of<float>(*this); }
MultiHeadParameters<const float> MultiHeadWeights::parameters() const& { return views_of<const float>(*this); }

MultiHeadWeights load_multihead(const std::string& path, const std::string& prefix, const HeadCounts& stated) {
  constexpr const char* kName = "load_multihead";
  HeadCounts counts = stated;
  if (counts.kv_heads == 0) counts.kv_heads = counts.heads;
  check(counts.heads >= 0 && counts.kv_heads >= 0 &&
            (counts.heads == 0 ? counts.kv_heads == 0 : counts.heads % counts.kv_heads == 0),
        kName, "the ", counts.heads, " heads are not a multiple of the ", counts.kv_heads, " key/value heads");
  const StateDict dict(path, prefix);
  if (dict.has("in_proj_weight") && dict.has("q_proj_weight")) {
    dict.refuse("there are both in_proj_weight and q_proj_weight, and W_Q can be but one of them",
                "PyTorch saves one or the other; remove what does not belong to this layer");
  }
  if (dict.has("bias_k") || dict.has("bias_v")) {
    dict.refuse("the layer has bias_k and bias_v, a key and a value that every query sees beside the others",
                "layers with add_bias_kv=True are not taken here");
  }
  MultiHeadWeights layer;
  if (dict.has("in_proj_weight")) {
    read_fused(dict, counts, layer);
  } else if (dict.has("q_proj_weight") && dict.has("k_proj_weight") && dict.has("v_proj_weight")) {
    read_separate(dict, counts, layer);
  } else {
    dict.refuse("there is neither in_proj_weight nor q_proj_weight, k_proj_weight and v_proj_weight",
                "it has " + dict.names() + "; a prefix, as in FILE:PREFIX, chooses names that begin with it");
  }
  if (dict.has("out_proj.weight")) read_out(dict, counts, layer);
  return layer;
}

io::FileProblem undivided_heads(int64_t width, int64_t heads) {
  std::string message = "heads " + std::to_string(heads) + " does not divide the width " + std::to_string(width);
  if (heads > 0) {
    std::array<char, 64> quotient{};
    std::snprintf(quotient.data(), quotient.size(), " (%lld/%lld = %.4g)", static_cast<long long>(width),
                  static_cast<long long>(heads), static_cast<double>(width) / static_cast<double>(heads));
    message += quotient.data();
  }
  std::string divisors;
  for (int64_t each = 1, found = 0; each <= width && found < 12; ++each) {
    if (width % each != 0) continue;
    if (!divisors.empty()) divisors += ", ";
    divisors += std::to_string(each);
    ++found;
  }
  return {.what = message, .hint = "these do: " + divisors};
}

}  // namespace heed
