#include "heed/attention/projection.h"

namespace heed {
namespace {

LinearParameters packed_parameters(const PackedMatrix& weight, const Tensor& bias) {
  return {{}, &weight, bias.count() == 0 ? View<const float, 1>() : bias.view<1>()};
}

// Do b's rows (or values) follow a's in memory?
bool follows(View<const float, 2> a, View<const float, 2> b) {
  return a.size(1) == b.size(1) && a.strides() == b.strides() && b.data() == a.data() + a.size(0) * a.stride(0);
}
bool follows(View<const float, 1> a, View<const float, 1> b) {
  if (a.data() == nullptr || b.data() == nullptr) return a.data() == b.data();
  return a.stride(0) == 1 && b.stride(0) == 1 && b.data() == a.data() + a.size(0);
}

}  // namespace

Projections projections_of(const PackedMultiHead& p) {
  return {packed_parameters(p.q, p.q_bias),
          packed_parameters(p.k, p.k_bias),
          packed_parameters(p.v, p.v_bias),
          packed_parameters(p.out, p.out_bias),
          {}};
}

bool lie_together(const MultiHeadParameters<const float>& p) {
  return follows(p.q, p.k) && follows(p.k, p.v) && follows(p.q_bias, p.k_bias) && follows(p.k_bias, p.v_bias);
}

Projections projections_of(const MultiHeadParameters<const float>& p) {
  Projections result{
      {p.q, nullptr, p.q_bias}, {p.k, nullptr, p.k_bias}, {p.v, nullptr, p.v_bias}, {p.out, nullptr, p.out_bias}, {}};
  if (lie_together(p)) {
    result.qkv.weight = all_weights(p);
    result.qkv.bias = all_biases(p, result.qkv.outputs());
  }
  return result;
}

}  // namespace heed
