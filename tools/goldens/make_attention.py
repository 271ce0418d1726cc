#!/usr/bin/env python3
"""Writes tests/golden/attention.txt: small attention problems and PyTorch's answers.

    python3 -m pip install torch        # any version from 2.5 on, CPU
    tools/goldens/make_attention.py tests/golden/attention.txt

Everything is computed in float64 by torch.nn.functional.scaled_dot_product_attention (its plain "math" path) and by
autograd, and rounded to float32 once, at the end. Inputs are multiples of 1/16, exact in both.
Tensors are written as Heed takes them: q [B,Tq,H,Dk], k [B,Tk,Hkv,Dk], v [B,Tk,Hkv,Dv], out [B,Tq,H,Dv],
lse [B,H,Tq], visible [B,H,Tq,Tk] (1 = may see). The format is described in tests/support/golden.h.
"""

import argparse
import dataclasses
import math
import textwrap
import zlib

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel


@dataclasses.dataclass
class Case:
    name: str
    sizes: tuple  # B, H, Hkv, Tq, Tk, Dk, Dv
    mask: str = "none"  # how Heed builds the mask; `visible` follows it below
    scale: float | None = None
    spread: float = 1.0  # standard deviation of q; 1 elsewhere


CASES = [
    Case("one_pair", (1, 1, 1, 1, 1, 1, 1)),
    Case("dense", (2, 3, 3, 5, 7, 5, 3)),
    Case("dense_two_panels", (1, 1, 1, 67, 19, 4, 4)),
    Case("two_pieces", (1, 1, 1, 5, 141, 2, 2)),
    Case("wide_heads", (1, 1, 1, 3, 5, 65, 33)),
    Case("scale_given", (1, 2, 2, 7, 9, 6, 5), scale=0.3125),
    Case("negative_scale", (1, 1, 1, 4, 7, 4, 4), scale=-0.5),
    Case("saturated", (1, 2, 2, 8, 11, 6, 6), spread=30.0),
    Case("cross", (2, 2, 2, 5, 13, 3, 7)),
    Case("causal", (2, 2, 2, 13, 13, 5, 4), mask="causal"),
    Case("causal_past_a_block", (1, 1, 1, 49, 49, 3, 3), mask="causal"),
    Case("causal_bottom_right", (1, 2, 2, 6, 17, 5, 3), mask="causal_bottom_right"),
    Case("causal_top_left", (1, 2, 2, 9, 6, 5, 3), mask="causal_top_left"),
    Case("causal_bottom_right_blind_rows", (1, 1, 1, 7, 4, 3, 3), mask="causal_bottom_right"),
    Case("window", (1, 1, 1, 33, 33, 4, 4), mask="window 4 2"),
    Case("lengths", (3, 1, 1, 5, 13, 4, 4), mask="lengths 13 1 7"),
    Case("causal_lengths", (2, 1, 1, 11, 11, 4, 4), mask="causal & lengths 11 6"),
    Case("documents", (1, 1, 1, 21, 21, 4, 4), mask="documents 0 4 5 15"),
    Case("causal_documents", (1, 1, 1, 21, 21, 4, 4), mask="causal & documents 0 4 5 15"),
    Case("keep_all_heads", (2, 2, 2, 5, 11, 3, 3), mask="keep"),
    Case("keep_blind_rows", (1, 2, 2, 6, 9, 4, 4), mask="keep"),
    Case("block_per_head", (2, 3, 3, 6, 10, 4, 4), mask="block"),
    Case("causal_keep", (1, 2, 2, 18, 18, 4, 4), mask="causal & keep"),
    Case("grouped", (1, 6, 2, 5, 7, 5, 4)),
    Case("grouped_causal", (2, 6, 3, 5, 5, 4, 4), mask="causal"),
    Case("multi_query", (1, 4, 1, 6, 6, 7, 5), mask="causal"),
]


def visible_by(part, case, generator):
    """[B, H, Tq, Tk] bool of one part of a mask, from its definition."""
    batch, heads, _, t_q, t_k, _, _ = case.sizes
    shape = (batch, heads, t_q, t_k)
    query = torch.arange(t_q).view(1, 1, t_q, 1)
    key = torch.arange(t_k).view(1, 1, 1, t_k)
    name, *numbers = part.split()
    numbers = [int(number) for number in numbers]
    if name == "none":
        result = torch.ones(shape, dtype=torch.bool)
    elif name in ("causal", "causal_top_left"):
        result = key <= query
    elif name == "causal_bottom_right":
        result = key <= query + t_k - t_q
    elif name == "window":
        result = (key >= query - numbers[0]) & (key <= query + numbers[1])
    elif name == "lengths":
        result = key < torch.tensor(numbers).view(batch, 1, 1, 1)
    elif name == "documents":
        starts = torch.tensor(numbers)
        result = torch.bucketize(query, starts, right=True) == torch.bucketize(key, starts, right=True)
    elif name in ("keep", "block"):
        heads_drawn = 1 if name == "keep" else heads
        result = torch.rand((batch, heads_drawn, t_q, t_k), generator=generator) < 0.6
        if case.name == "keep_blind_rows":
            result[:, :, 1::3] = False
    else:
        raise ValueError(f"no mask named {name}")
    return result.expand(shape)


def normal(shape, generator, spread=1.0):
    return (spread * torch.randn(shape, generator=generator, dtype=torch.float64) * 16).round() / 16


def compute(case):
    """Everything about a case, by name."""
    generator = torch.Generator().manual_seed(zlib.crc32(case.name.encode()))
    batch, heads, kv_heads, t_q, t_k, d_k, d_v = case.sizes
    q = normal((batch, t_q, heads, d_k), generator, case.spread).requires_grad_()
    k = normal((batch, t_k, kv_heads, d_k), generator).requires_grad_()
    v = normal((batch, t_k, kv_heads, d_v), generator).requires_grad_()
    d_out = normal((batch, t_q, heads, d_v), generator)
    visible = torch.ones((batch, heads, t_q, t_k), dtype=torch.bool)
    for part in case.mask.split(" & "):
        visible = visible & visible_by(part, case, generator)

    with sdpa_kernel(SDPBackend.MATH):
        heads_first = torch.nn.functional.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
            attn_mask=visible, scale=case.scale, enable_gqa=heads != kv_heads)
    out = heads_first.transpose(1, 2)
    out.backward(d_out)

    scale = d_k**-0.5 if case.scale is None else case.scale
    keys = k.detach().repeat_interleave(heads // kv_heads, dim=2)
    scores = scale * torch.einsum("bqhd,bkhd->bhqk", q.detach(), keys)
    lse = torch.logsumexp(scores.masked_fill(~visible, float("-inf")), dim=3)
    return {"q": q, "k": k, "v": v, "d_out": d_out, "visible": visible, "out": out, "lse": lse,
            "d_q": q.grad, "d_k": k.grad, "d_v": v.grad}


def number(value):
    """A float32 in C's hexadecimal form, without trailing zeros."""
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return str(value)
    mantissa, exponent = float(value).hex().split("p")
    return f"{mantissa.rstrip('0').rstrip('.')}p{exponent}"


def write_tensor(file, name, tensor):
    kind = "bits" if tensor.dtype == torch.bool else "tensor"
    file.write(" ".join((kind, name, str(tensor.dim()), *map(str, tensor.shape))) + "\n")
    if kind == "bits":
        for row in tensor.flatten(0, -2).tolist():
            file.write("".join("1" if bit else "0" for bit in row) + "\n")
    else:
        values = tensor.detach().to(torch.float32).flatten().tolist()
        for line in textwrap.wrap(" ".join(map(number, values)), 120):
            file.write(line + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    arguments = parser.parse_args()
    with open(arguments.output, "w", encoding="ascii") as file:
        file.write("# Attention in float64 by PyTorch, rounded to float32. Made by tools/goldens/make_attention.py.\n")
        for case in CASES:
            file.write(f"case {case.name}\n")
            file.write(f"text mask {case.mask}\n")
            if case.scale is not None:
                file.write(f"text scale {case.scale}\n")
            file.write(f"text spread {case.spread}\n")
            for name, tensor in compute(case).items():
                write_tensor(file, name, tensor)


if __name__ == "__main__":
    main()
