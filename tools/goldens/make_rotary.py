#!/usr/bin/env python3
"""Writes tests/golden/rotary.txt: rotary positions and their gradients by PyTorch.

    python3 -m pip install torch        # any version from 2.5 on, CPU
    tools/goldens/make_rotary.py tests/golden/rotary.txt

Everything is computed in float64 and rounded to float32 once, at the end; inputs are multiples of 1/16. `interleaved`
multiplies complex numbers, `halves` adds the vector with its halves swapped: the two ways in which the pairings are
usually written. Gradients are autograd's. Tensors are [B,T,H,D], positions [B,T]. The format is described in
tests/support/golden.h.
"""

import argparse
import dataclasses
import zlib

import torch

from make_attention import normal, write_tensor


@dataclasses.dataclass
class Case:
    name: str
    sizes: tuple  # B, T, H, D
    pairing: str
    width: int
    base: float = 10000.0
    positions: tuple = ()  # one list an item; 0, 1, … unless given


CASES = [
    Case("interleaved_one_pair", (1, 3, 1, 2), "interleaved", 2),
    Case("halves_one_pair", (1, 3, 1, 2), "halves", 2),
    Case("interleaved", (2, 3, 2, 20), "interleaved", 20),
    Case("halves", (2, 3, 2, 20), "halves", 20),
    Case("interleaved_vectors", (1, 2, 1, 64), "interleaved", 64),
    Case("halves_vectors", (1, 2, 1, 64), "halves", 64),
    Case("interleaved_partial", (1, 3, 2, 29), "interleaved", 22, base=500.0),
    Case("halves_partial", (1, 3, 2, 29), "halves", 22, base=500.0),
    Case("interleaved_long_base", (1, 3, 1, 36), "interleaved", 36, base=500000.0,
         positions=((8190, 8191, 8192),)),
    Case("halves_positions_by_item", (2, 4, 1, 18), "halves", 18, positions=((7, 3, 3, 0), (0, 1, 900, 5))),
    Case("interleaved_far", (1, 2, 1, 16), "interleaved", 16, positions=((1048575, 1048576),)),
    Case("halves_far", (1, 2, 1, 16), "halves", 16, positions=((1048575, 1048576),)),
]


def rotate_interleaved(x, angles):
    """Elements 2i and 2i + 1 are a complex number, turned by angle i."""
    numbers = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(numbers * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


def rotate_halves(x, angles):
    """x · cos + (its second half, negated, before its first) · sin, with the angles twice."""
    both = torch.cat((angles, angles), dim=-1)
    first, second = x.chunk(2, dim=-1)
    return x * both.cos() + torch.cat((-second, first), dim=-1) * both.sin()


def compute(case):
    generator = torch.Generator().manual_seed(zlib.crc32(case.name.encode()))
    batch, tokens = case.sizes[:2]
    x = normal(case.sizes, generator).requires_grad_()
    d_out = normal(case.sizes, generator)
    positions = torch.tensor(case.positions or [range(tokens)] * batch, dtype=torch.float64)
    frequencies = case.base ** (-torch.arange(0, case.width, 2, dtype=torch.float64) / case.width)
    angles = (positions[:, :, None] * frequencies)[:, :, None, :]  # [B, T, 1, width / 2]
    rotate = rotate_interleaved if case.pairing == "interleaved" else rotate_halves
    out = torch.cat((rotate(x[..., : case.width], angles), x[..., case.width :]), dim=-1)
    out.backward(d_out)
    return {"x": x, "positions": positions, "d_out": d_out, "out": out, "d_x": x.grad}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    arguments = parser.parse_args()
    with open(arguments.output, "w", encoding="ascii") as file:
        file.write("# Rotary positions in float64 by PyTorch, rounded to float32. Made by tools/goldens/make_rotary.py.\n")
        for case in CASES:
            file.write(f"case {case.name}\n")
            file.write(f"text pairing {case.pairing}\n")
            file.write(f"text width {case.width}\n")
            file.write(f"text base {case.base}\n")
            for name, tensor in compute(case).items():
                write_tensor(file, name, tensor)


if __name__ == "__main__":
    main()
