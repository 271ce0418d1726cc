"""PyTorch's side of tools/exactness/measure: the protocol of heed_rows.cpp, answered by the fused kernels."""

import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel


def read(shape):
    tensor = torch.empty(shape)
    if sys.stdin.buffer.readinto(tensor.numpy()) != 4 * tensor.numel():
        sys.exit("torch_rows: error: the input ended within a tensor")
    return tensor


def answer(batch, heads, kv_heads, t_q, t_k, width, causal):
    q_shape, k_shape = (batch, heads, t_q, width), (batch, kv_heads, t_k, width)
    q, k, v, d_out = (read(shape) for shape in (q_shape, k_shape, k_shape, q_shape))
    inputs = [tensor.requires_grad_() for tensor in (q, k, v)]
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):  # an error where it cannot do this call, never another path
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=bool(causal),
                                                               enable_gqa=heads != kv_heads)
    gradients = torch.autograd.grad(out, inputs, d_out)
    for tensor in (out, *gradients):
        sys.stdout.buffer.write(tensor.detach().contiguous().numpy().data)
    sys.stdout.buffer.flush()


def main():
    print(f"{torch.__version__.split('+')[0]} {torch.backends.cpu.get_cpu_capability()}", flush=True)
    for line in sys.stdin.buffer:
        answer(*map(int, line.split()))


main()
