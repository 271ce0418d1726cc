// Heed's side of tools/exactness/measure: attention of tensors that come in on standard input. torch_rows.py is
// PyTorch's side and speaks the same protocol.
//
//     heed_exactness [baseline|avx2|avx512]
//
// First says the instruction set in use, on a line. Then, until the input ends, reads a line
//     B H Hkv Tq Tk D causal        causal is 0 or 1
// followed by q [B,H,Tq,D], k [B,Hkv,Tk,D], v [B,Hkv,Tk,D] and d_out [B,H,Tq,D] as raw f32, and answers with out, d_q,
// d_k and d_v, of the shapes of q, q, k and v.
#include <cstdint>
#include <exception>
#include <iostream>
#include <span>
#include <string_view>

#include "heed/attention/attention.h"
#include "heed/core/error.h"
#include "heed/core/tensor.h"
#include "heed/simd/isa.h"

namespace {

using heed::Tensor;

struct Sizes {
  int64_t batch = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t t_q = 0;
  int64_t t_k = 0;
  int64_t width = 0;
  bool causal = false;
};

// False where the input ends.
bool read_sizes(Sizes& sizes) {
  std::cin >> sizes.batch >> sizes.heads >> sizes.kv_heads >> sizes.t_q >> sizes.t_k >> sizes.width >> sizes.causal;
  return static_cast<bool>(std::cin.ignore(1, '\n'));
}

std::streamsize bytes_of(std::span<const float> values) { return static_cast<std::streamsize>(values.size_bytes()); }

Tensor read_tensor(int64_t batch, int64_t heads, int64_t length, int64_t width) {
  Tensor tensor({batch, heads, length, width});
  std::cin.read(reinterpret_cast<char*>(tensor.values().data()), bytes_of(tensor.values()));
  heed::check(static_cast<bool>(std::cin), "heed_exactness", "the input ended within a tensor");
  return tensor;
}

void write_tensor(const Tensor& tensor) {
  std::cout.write(reinterpret_cast<const char*>(tensor.values().data()), bytes_of(tensor.values()));
}

// [B, H, T, D] as the interface wants it: [B, T, H, D].
auto view_of(auto& tensor) { return tensor.template view<4>().permuted({0, 2, 1, 3}); }

void answer(const Sizes& sizes) {
  const Tensor q = read_tensor(sizes.batch, sizes.heads, sizes.t_q, sizes.width);
  const Tensor k = read_tensor(sizes.batch, sizes.kv_heads, sizes.t_k, sizes.width);
  const Tensor v = read_tensor(sizes.batch, sizes.kv_heads, sizes.t_k, sizes.width);
  const Tensor d_out = read_tensor(sizes.batch, sizes.heads, sizes.t_q, sizes.width);
  Tensor out(q.shape());
  Tensor d_q(q.shape());
  Tensor d_k(k.shape());
  Tensor d_v(v.shape());
  Tensor shift({sizes.batch, sizes.heads, sizes.t_q});
  Tensor sum({sizes.batch, sizes.heads, sizes.t_q});

  const heed::AttentionInputs inputs{view_of(q), view_of(k), view_of(v)};
  heed::AttentionOptions options;
  if (sizes.causal) options.mask = heed::Mask::causal();
  const heed::RowStates<float> rows{shift.view<3>(), sum.view<3>()};
  heed::attention_forward(inputs, options, view_of(out), rows);
  heed::attention_backward(inputs, options, {view_of(out), rows, view_of(d_out)},
                           {view_of(d_q), view_of(d_k), view_of(d_v)});
  for (const Tensor* tensor : {&out, &d_q, &d_k, &d_v}) write_tensor(*tensor);
  std::cout.flush();
}

void use_isa(std::string_view name) {
  for (const heed::Isa each : heed::supported_isas()) {
    if (heed::isa_name(each) == name) return heed::set_isa(each);
  }
  heed::fail("heed_exactness", "this machine or this build has no instruction set named ", name);
}

}  // namespace

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  try {
    if (argc > 1) use_isa(argv[1]);
    std::cout << heed::isa_name(heed::isa()) << std::endl;
    for (Sizes sizes; read_sizes(sizes);) answer(sizes);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
