"""The modules of the goldens by name, from the arguments that a case has in JSON: PyTorch's own, and in the same style
those that it lacks, written as plain formulas.
"""

import torch
from make_rotary import rotate_halves, rotate_interleaved
from torch import nn


class SwiGlu(nn.Module):
    """The feed-forward of Llama: down(silu(gate(x)) · up(x))."""

    def __init__(self, width, hidden, bias=False):
        super().__init__()
        self.gate_proj = nn.Linear(width, hidden, bias)
        self.up_proj = nn.Linear(width, hidden, bias)
        self.down_proj = nn.Linear(hidden, width, bias)

    def forward(self, x):
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class GroupedAttention(nn.Module):
    """Self attention in which query head h reads key/value head h / (heads / kv_heads), with rotary positions on whole
    heads (interleaved, halves or None) and ALiBi with the paper's slopes, 2^(-8 (h + 1) / heads)."""

    def __init__(self, width, heads, kv_heads, bias=False, rotary=None, base=10000.0, alibi=False, causal=True):
        super().__init__()
        dim = width // heads
        self.heads, self.kv_heads, self.dim = heads, kv_heads, dim
        self.rotary, self.base, self.alibi, self.causal = rotary, base, alibi, causal
        self.q_proj = nn.Linear(width, heads * dim, bias)
        self.k_proj = nn.Linear(width, kv_heads * dim, bias)
        self.v_proj = nn.Linear(width, kv_heads * dim, bias)
        self.out_proj = nn.Linear(heads * dim, width, bias)

    def turned(self, x):
        """x [B, T, H, D] by the angles of its positions."""
        if self.rotary is None:
            return x
        frequencies = self.base ** (-torch.arange(0, self.dim, 2, dtype=x.dtype) / self.dim)
        angles = (torch.arange(x.shape[1], dtype=x.dtype)[:, None] * frequencies)[None, :, None, :]
        return {"interleaved": rotate_interleaved, "halves": rotate_halves}[self.rotary](x, angles)

    def forward(self, x):
        group = self.heads // self.kv_heads
        q = self.turned(self.q_proj(x).unflatten(-1, (self.heads, self.dim)))
        k = self.turned(self.k_proj(x).unflatten(-1, (self.kv_heads, self.dim))).repeat_interleave(group, dim=2)
        v = self.v_proj(x).unflatten(-1, (self.kv_heads, self.dim)).repeat_interleave(group, dim=2)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * self.dim**-0.5
        position = torch.arange(x.shape[1])
        if self.alibi:
            slopes = 2.0 ** (-8.0 * torch.arange(1, self.heads + 1, dtype=x.dtype) / self.heads)
            scores = scores - slopes[:, None, None] * (position[:, None] - position).abs()
        if self.causal:
            scores = scores.masked_fill(position > position[:, None], float("-inf"))
        return self.out_proj(torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v).flatten(-2))


class SinusoidalPositions(nn.Module):
    """x + P with P[t, 2i] = sin(t / 10000^(2i / width)) and P[t, 2i + 1] = cos of the same."""

    def __init__(self, width, base=10000.0):
        super().__init__()
        self.width, self.base = width, base

    def forward(self, x):
        frequencies = self.base ** (-torch.arange(0, self.width, 2, dtype=x.dtype) / self.width)
        angles = torch.arange(x.shape[1], dtype=x.dtype)[:, None] * frequencies
        return x + torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)[:, : self.width]


class PatchEmbedding(nn.Module):
    """Images [B, channels, height, width] to tokens [B, patches, embed_dim], patches row by row."""

    def __init__(self, channels, patch, embed_dim, bias=True):
        super().__init__()
        self.proj = nn.Conv2d(channels, embed_dim, kernel_size=patch, stride=patch, bias=bias)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


def final_norm(layer, norm):
    return nn.LayerNorm(layer["d_model"], bias=layer.get("bias", True)) if norm else None


def encoder(layer, num_layers, norm):
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(**DEFAULTS, **layer), num_layers, final_norm(layer, norm),
                                 enable_nested_tensor=False)


def decoder(layer, num_layers, norm):
    return nn.TransformerDecoder(nn.TransformerDecoderLayer(**DEFAULTS, **layer), num_layers, final_norm(layer, norm))


DEFAULTS = {"batch_first": True, "dropout": 0.0}
STACKS = {"TransformerEncoder": encoder, "TransformerDecoder": decoder}
WITH_DEFAULTS = ("MultiheadAttention", "TransformerEncoderLayer", "TransformerDecoderLayer", "Transformer")
FORMULAS = {each.__name__: each for each in (SwiGlu, GroupedAttention, SinusoidalPositions, PatchEmbedding)}


def make_module(name, arguments):
    """In float64. `arguments` are those of PyTorch's constructor; for a stack {"layer": …, "num_layers": …, "norm":
    whether it ends with a LayerNorm}. Everything is batch first and without dropout."""
    if name in STACKS:
        module = STACKS[name](**arguments)
    elif name in FORMULAS:
        module = FORMULAS[name](**arguments)
    else:
        module = getattr(nn, name)(**(DEFAULTS if name in WITH_DEFAULTS else {}), **arguments)
    return module.double()


def call_module(module, inputs, masks):
    """The output for the inputs in their order: x; x, context; x, key, value; x, memory; src, tgt; ids."""
    inputs = list(inputs.values())
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        if not isinstance(module, nn.MultiheadAttention):
            return module(*inputs, **masks)
        x, key, value = inputs[0], inputs[-2 if len(inputs) == 3 else -1], inputs[-1]
        return module(x, key, value, need_weights=False, **masks)[0]
