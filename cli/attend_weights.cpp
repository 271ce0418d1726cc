#include "cli/attend_weights.h"

#include <algorithm>

#include "cli/attend_layout.h"
#include "cli/command_line.h"
#include "heed/io/safetensors.h"

namespace heed::cli {
namespace {

[[noreturn]] void refuse(const std::string& message, const std::string& hint, const std::string& file) {
  throw CommandError("data.weights", message, hint, kBadData, file);
}

// Reads tensors of one file by name, each of the rank it should have.
class Weights {
 public:
  Weights(const std::string& path, std::string prefix) : file_(path), prefix_(std::move(prefix)) {}

  bool has(const std::string& name) const { return file_.has(prefix_ + name); }

  Tensor read(const std::string& name, int rank) const {
    Tensor tensor = file_.read(prefix_ + name).values;
    if (tensor.rank() != rank || tensor.count() == 0) {
      refuse(prefix_ + name + " has shape " + to_text(tensor.shape()),
             rank == 2 ? "a weight is [outputs, inputs]" : "a bias is [outputs]", file_.path());
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
             "weight and bias must be of one layer", file_.path());
    }
    return bias;
  }

  const std::string& path() const { return file_.path(); }
  std::string names() const {
    std::string text;
    for (const std::string& name : file_.names()) {
      if (text.size() > 200) return text + ", …";
      text += text.empty() ? name : ", " + name;
    }
    return text.empty() ? "nothing" : text;
  }

 private:
  io::SafetensorsFile file_;
  std::string prefix_;
};

// Rows [first, first + count) of a matrix, or values of a bias.
Tensor rows_of(const Tensor& tensor, int64_t first, int64_t count) {
  if (tensor.count() == 0) return {};
  const int64_t width = tensor.rank() == 2 ? tensor.shape()[1] : 1;
  Tensor made = tensor.rank() == 2 ? Tensor({count, width}) : Tensor({count});
  std::copy_n(tensor.values().begin() + first * width, count * width, made.values().begin());
  return made;
}

struct HeadCounts {
  int64_t heads = 0;
  int64_t kv_heads = 0;
};

// W_Q, W_K and W_V in one matrix, one after the other.
void read_fused(const Weights& weights, const HeadCounts& counts, explain::Layer& layer) {
  const auto& [heads, kv_heads] = counts;
  const int64_t shares = heads + 2 * kv_heads;
  const Tensor all = weights.read("in_proj_weight", 2);
  const int64_t outputs = all.shape()[0];
  if (kv_heads == heads && outputs % 3 == 0) check_heads_divide(outputs / 3, heads, weights.path());
  if (outputs % shares != 0) {
    refuse("in_proj_weight has " + std::to_string(outputs) + " rows, which " + std::to_string(heads) + " + 2*" +
               std::to_string(kv_heads) + " heads do not divide",
           "its rows are those of W_Q, W_K and W_V, one after the other", weights.path());
  }
  const int64_t width = outputs / shares;
  const int64_t q = heads * width, kv = kv_heads * width;
  const Tensor bias = weights.read_bias("in_proj_bias", outputs);
  layer.q = rows_of(all, 0, q);
  layer.k = rows_of(all, q, kv);
  layer.v = rows_of(all, q + kv, kv);
  layer.q_bias = rows_of(bias, 0, q);
  layer.k_bias = rows_of(bias, q, kv);
  layer.v_bias = rows_of(bias, q + kv, kv);
}

// Each in a matrix of its own: kdim or vdim differ.
void read_separate(const Weights& weights, const HeadCounts& counts, explain::Layer& layer) {
  const auto& [heads, kv_heads] = counts;
  layer.q = weights.read("q_proj_weight", 2);
  layer.k = weights.read("k_proj_weight", 2);
  layer.v = weights.read("v_proj_weight", 2);
  const int64_t q = layer.q.shape()[0], k = layer.k.shape()[0], v = layer.v.shape()[0];
  check_heads_divide(q, heads, weights.path());
  check_heads_divide(v, kv_heads, weights.path());
  if (k * heads != q * kv_heads) {
    refuse("q_proj_weight has " + std::to_string(q) + " rows for " + std::to_string(heads) + " heads, k_proj_weight " +
               std::to_string(k) + " for " + std::to_string(kv_heads),
           "queries and keys of a head must be of one width", weights.path());
  }
  const Tensor bias = weights.read_bias("in_proj_bias", q + k + v);
  layer.q_bias = rows_of(bias, 0, q);
  layer.k_bias = rows_of(bias, q, k);
  layer.v_bias = rows_of(bias, q + k, v);
}

void read_out(const Weights& weights, const HeadCounts& counts, explain::Layer& layer) {
  layer.out = weights.read("out_proj.weight", 2);
  const int64_t concat = layer.v.shape()[0] / counts.kv_heads * counts.heads;
  if (layer.out.shape()[1] != concat) {
    refuse("out_proj.weight has shape " + to_text(layer.out.shape()) + ", but the heads side by side have width " +
               std::to_string(concat),
           "it is [outputs, heads * width of a value]", weights.path());
  }
  layer.out_bias = weights.read_bias("out_proj.bias", layer.out.shape()[0]);
}

}  // namespace

explain::Layer read_layer_weights(const std::string& reference, int64_t heads, int64_t kv_heads) {
  const std::string marker = ".safetensors:";
  const size_t at = reference.rfind(marker);
  const bool prefixed = at != std::string::npos;
  const Weights weights(prefixed ? reference.substr(0, at + marker.size() - 1) : reference,
                        prefixed ? reference.substr(at + marker.size()) : "");
  if (heads % kv_heads != 0) {
    throw CommandError("usage.kv_heads",
                       "the " + std::to_string(heads) + " heads are not a multiple of the " + std::to_string(kv_heads) +
                           " key/value heads",
                       "each key/value head serves equally many heads");
  }
  if (weights.has("in_proj_weight") && weights.has("q_proj_weight")) {
    refuse("there are both in_proj_weight and q_proj_weight, and W_Q can be but one of them",
           "PyTorch saves one or the other; remove what does not belong to this layer", weights.path());
  }
  if (weights.has("bias_k") || weights.has("bias_v")) {
    refuse("the layer has bias_k and bias_v, a key and a value that every query sees beside the others",
           "layers with add_bias_kv=True are not taken here", weights.path());
  }
  explain::Layer layer;
  if (weights.has("in_proj_weight")) {
    read_fused(weights, {heads, kv_heads}, layer);
  } else if (weights.has("q_proj_weight") && weights.has("k_proj_weight") && weights.has("v_proj_weight")) {
    read_separate(weights, {heads, kv_heads}, layer);
  } else {
    refuse("there is neither in_proj_weight nor q_proj_weight, k_proj_weight and v_proj_weight",
           "it has " + weights.names() + "; FILE:PREFIX chooses names that begin with PREFIX", weights.path());
  }
  if (weights.has("out_proj.weight")) read_out(weights, {heads, kv_heads}, layer);
  return layer;
}

}  // namespace heed::cli
