#!/usr/bin/env python3
"""Writes tests/golden/multihead.txt: small multi-head layers and PyTorch's answers.

    python3 -m pip install torch        # any version from 2.5 on, CPU
    tools/goldens/make_multihead.py tests/golden/multihead.txt

Everything is computed in float64 by torch.nn.MultiheadAttention (scaled_dot_product_attention's plain "math" path) and
by autograd, and rounded to float32 once, at the end. Inputs and parameters are multiples of 1/16 or 1/64, exact in both.
Tensors: the inputs that there are, x [B,Tq,E] and context [B,Tk,kdim] or key [B,Tk,kdim] and value [B,Tk,vdim]; the
parameters under PyTorch's names; d_y and y [B,Tq,E]; and d_NAME, the gradient of every input and parameter. The format
is described in tests/support/golden.h.
"""

import argparse
import dataclasses
import zlib

import torch
from make_attention import normal, write_tensor
from torch.nn.attention import SDPBackend, sdpa_kernel


@dataclasses.dataclass
class Case:
    name: str
    sizes: tuple  # B, Tq, Tk, E, H
    inputs: str = "x"  # x: self attention; "x context"; "x key value"
    widths: tuple | None = None  # kdim, vdim; None: E, and one in_proj_weight
    bias: bool = True
    mask: str = "none"  # none, causal, lengths …


CASES = [
    Case("one_token", (1, 1, 1, 2, 1)),
    Case("self", (2, 5, 5, 8, 2)),
    Case("self_causal", (2, 13, 13, 12, 3), mask="causal"),
    Case("self_without_bias", (3, 4, 4, 6, 3), bias=False),
    Case("self_lengths", (3, 7, 7, 10, 2), mask="lengths 7 1 4"),
    Case("self_past_a_panel", (1, 67, 67, 8, 2), mask="causal"),
    Case("self_one_wide_head", (2, 3, 3, 19, 1)),
    Case("self_batch_of_single_tokens", (5, 1, 1, 8, 2)),
    Case("cross", (2, 5, 9, 8, 4), inputs="x context"),
    Case("cross_other_width", (2, 6, 11, 8, 2), inputs="x context", widths=(5, 5)),
    Case("cross_kdim_vdim", (2, 5, 7, 12, 3), inputs="x key value", widths=(7, 10)),
    Case("cross_kdim_vdim_causal", (2, 9, 9, 8, 2), inputs="x key value", widths=(3, 17), mask="causal"),
    Case("cross_kdim_vdim_without_bias", (1, 4, 6, 6, 2), inputs="x key value", widths=(4, 9), bias=False),
    Case("cross_lengths", (3, 4, 8, 6, 2), inputs="x context", widths=(9, 9), mask="lengths 8 3 5"),
]


def masks(case):
    """The arguments of PyTorch's layer: True = may not see."""
    batch, t_q, t_k, _, _ = case.sizes
    name, *numbers = case.mask.split()
    query, key = torch.arange(t_q).view(t_q, 1), torch.arange(t_k)
    if name == "none":
        return {}
    if name == "causal":
        return {"attn_mask": key > query}
    if name == "lengths":
        return {"key_padding_mask": key.view(1, t_k) >= torch.tensor([int(n) for n in numbers]).view(batch, 1)}
    raise ValueError(f"no mask named {name}")


def make_layer(case, generator):
    _, _, _, width, heads = case.sizes
    k_width, v_width = case.widths or (None, None)
    layer = torch.nn.MultiheadAttention(width, heads, bias=case.bias, kdim=k_width, vdim=v_width, batch_first=True,
                                        dtype=torch.float64)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(normal(parameter.shape, generator) / 4)
    return layer


def compute(case):
    """Everything about a case, by name."""
    generator = torch.Generator().manual_seed(zlib.crc32(case.name.encode()))
    batch, t_q, t_k, width, _ = case.sizes
    k_width, v_width = case.widths or (width, width)
    layer = make_layer(case, generator)
    widths = {"x": width, "context": k_width, "key": k_width, "value": v_width}
    inputs = {name: normal((batch, t_q if name == "x" else t_k, widths[name]), generator).requires_grad_()
              for name in case.inputs.split()}
    x, key, value = {"x": ("x", "x", "x"), "x context": ("x", "context", "context"),
                     "x key value": ("x", "key", "value")}[case.inputs]
    d_y = normal((batch, t_q, width), generator)
    with sdpa_kernel(SDPBackend.MATH):
        y, _ = layer(inputs[x], inputs[key], inputs[value], need_weights=False, **masks(case))
        y.backward(d_y)

    leaves = inputs | dict(layer.named_parameters())
    return leaves | {"d_y": d_y, "y": y} | {"d_" + name: leaf.grad for name, leaf in leaves.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    arguments = parser.parse_args()
    with open(arguments.output, "w", encoding="ascii") as file:
        file.write("# Multi-head layers in float64 by PyTorch, rounded to float32. Made by tools/goldens/make_multihead.py.\n")
        for case in CASES:
            file.write(f"case {case.name}\n")
            file.write(f"text heads {case.sizes[4]}\n")
            file.write(f"text mask {case.mask}\n")
            for name, tensor in compute(case).items():
                write_tensor(file, name, tensor)


if __name__ == "__main__":
    main()
