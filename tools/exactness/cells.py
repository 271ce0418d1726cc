"""What is measured: sizes and inputs of each cell.

A cell has a name, by which --rows finds it. T is the length, D the width of a head, and s the standard deviation of the
scaled scores:

    t512-d64-s4-causal     T queries and T keys, normal inputs, q times s; "-causal" where a query sees no later key
    t8192-keys-d64-s1      32 queries on T keys: out and d_q, which are sums over keys
    t8192-queries-d64-s1   T queries on 32 keys: d_k and d_v, which are sums over queries
    equal-t32768           16 queries on T keys of equal scores, the values 2.5 everywhere: out
    sums-n4096-g8-normal   d_k and d_v of 8 keys, from n queries: those of g heads that share one key/value head.
                           "positive" and "constant" have terms of one sign
"""

import zlib
from dataclasses import dataclass

import torch

ALL = ("out", "d_q", "d_k", "d_v")
LENGTHS, WIDTHS, SIZES = (128, 512, 2048, 8192), (64, 128), (1, 4, 16)
MOST_PRODUCT = 2048 * 2048 * 64  # multiply-adds of one product of a head; what is larger is measured in two parts
FEW = 32
CHUNK_FLOATS = 2**24


@dataclass(frozen=True)
class Cell:
    name: str
    t_q: int
    t_k: int
    width: int
    heads: int  # key/value heads; each has an error of its own
    tensors: tuple = ALL
    inputs: str = "normal"
    size: float = 1
    causal: bool = False
    group: int = 1  # query heads on one key/value head

    def chunks(self):
        """How many heads to compute at a time: (first, count) of each chunk."""
        step = max(1, CHUNK_FLOATS // (max(self.group * self.t_q, self.t_k) * self.width))
        return [(first, min(step, self.heads - first)) for first in range(0, self.heads, step)]

    def make(self, first, heads):
        """q, k, v and d_out of the heads from `first`, [heads, query or key/value heads, T, D]."""
        random = torch.Generator().manual_seed(zlib.crc32(f"{self.name} {first}".encode()))
        normal = lambda *shape: torch.randn(heads, *shape, generator=random)
        q_shape, k_shape = (self.group, self.t_q, self.width), (1, self.t_k, self.width)
        if self.inputs == "normal":
            return [normal(*q_shape) * self.size, normal(*k_shape), normal(*k_shape), normal(*q_shape)]
        k = normal(1, 1, self.width).expand(heads, *k_shape)  # the same for all keys
        if self.inputs == "equal":
            q = normal(*q_shape)
            q[:, :, 0] = 0
            return [q, k, torch.full((heads, *k_shape), 2.5), normal(*q_shape)]
        # A value for each key, the same in all widths: then all terms of an element of d_k have one sign, and of d_v too.
        v = normal(1, self.t_k, 1).expand(heads, *k_shape)
        if self.inputs == "positive":
            return [normal(*q_shape).abs(), k, v, normal(*q_shape).abs()]
        return [normal(1, 1, 1).abs().expand(heads, *q_shape), k, v, normal(1, 1, 1).abs().expand(heads, *q_shape)]


def of_length(length, width, size, causal):
    heads = 2000 if length == 128 else 1000
    name = f"t{length}{{}}-d{width}-s{size}" + "-causal" * causal
    common = {"width": width, "heads": heads, "size": size, "causal": causal}
    if length * length * width <= MOST_PRODUCT:
        return [Cell(name.format(""), length, length, **common)]
    return [Cell(name.format("-keys"), FEW, length, tensors=("out", "d_q"), **common),
            Cell(name.format("-queries"), length, FEW, tensors=("d_k", "d_v"), **common)]


def all_cells():
    cells = []
    for length in LENGTHS:
        for causal in (False, True) if length == 512 else (False,):
            for width in WIDTHS:
                for size in SIZES:
                    cells += of_length(length, width, size, causal)
    for length, heads in ((128, 1000), (1024, 1000), (32768, 64), (2**20, 4)):
        cells.append(Cell(f"equal-t{length}", 16, length, 64, heads, ("out",), "equal"))
    for inputs in ("normal", "positive", "constant"):
        for queries, heads in ((4096, 1000), (65536, 128), (2**20, 8)):
            for group in (1, 8):
                cells.append(Cell(f"sums-n{queries}-g{group}-{inputs}", queries // group, 8, 64, heads, ("d_k", "d_v"),
                                  inputs, group=group))
    return cells
