// Attention as a value, for first use.
#include "heed/attention/attention.h"

#include "heed/attention/problem.h"

namespace heed {
namespace {

constexpr const char* kName = "attention";

View<const float, 4> whole(const char* name, const Tensor& tensor, const char* dimensions) {
  check(tensor.rank() == 4, kName, name, " has shape ", tensor.shape(), ", expected ", dimensions);
  return tensor.view<4>();
}

}  // namespace

Tensor attention(View<const float, 4> q, View<const float, 4> k, View<const float, 4> v,
                 const AttentionOptions& options) {
  const Problem problem = check_problem(kName, {q, k, v}, options);
  Tensor out({problem.sizes.batch, problem.sizes.t_q, problem.sizes.heads, problem.d_v});
  attention_forward({q, k, v}, options, out.view<4>());
  return out;
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  return attention(whole("q", q, "[B, Tq, H, Dk]"), whole("k", k, "[B, Tk, Hkv, Dk]"),
                   whole("v", v, "[B, Tk, Hkv, Dv]"), options);
}

}  // namespace heed
