#!/usr/bin/env python3
"""Writes tests/golden/nn: small modules and PyTorch's answers, a safetensors file per family (golden_file.py).

    python3 -m pip install torch numpy        # torch 2.5 or newer, CPU
    tools/goldens/make_modules.py tests/golden/nn

Everything is computed in float64, by PyTorch's modules (scaled_dot_product_attention's plain "math" path), by plain
formulas where it has none (modules.py), and by autograd. Inputs and parameters are multiples of 1/16 or 1/64, exact in
f32. A case's options are {"module": NAME, "arguments": those of the constructor, "masks": those of the call}. A mask is
"causal", a list of lengths (a key padding mask), or "float" (added to the scores, with a gradient). Convolutions,
losses, optimisers and schedules are made by make_convolution.py, make_losses.py and make_training.py.
"""

import argparse
import dataclasses
import itertools
import pathlib

import torch
from golden_file import GoldenFile, backward, draw_parameters, generator_of
from make_attention import normal
from modules import call_module, make_module

BATCH, WIDTH, HEADS, HIDDEN = 2, 8, 2, 12
T_Q, T_K = 5, 4  # tokens of x, and of the memory or the context
VOCABULARY = 7


@dataclasses.dataclass
class Case:
    name: str
    module: str
    arguments: dict
    inputs: dict  # shapes in the order of the call; "ids" is a name for whole numbers below VOCABULARY
    masks: dict = dataclasses.field(default_factory=dict)
    spread: float = 1.0  # standard deviation of the inputs


def masked_lengths(module, argument, lengths):
    """How many queries and keys the mask of an argument has, from the lengths of the inputs."""
    first, last = lengths[0], lengths[-1]
    target, memory = (last, first) if module == "Transformer" else (first, last)
    sides = {"src": (first, first), "tgt": (target, target), "memory": (target, memory)}
    return sides.get(argument.split("_")[0], (first, last))


def draw_mask(mask, lengths, generator):
    """A mask of PyTorch: True hides. `lengths` of queries and keys."""
    queries, keys = lengths
    if mask == "causal":
        return torch.arange(keys) > torch.arange(queries)[:, None]
    if mask == "float":
        return normal((queries, keys), generator).requires_grad_()
    return torch.arange(keys) >= torch.tensor(mask)[:, None]


def compute(case):
    generator = generator_of(case.name)
    module = make_module(case.module, case.arguments)
    draw_parameters(module, generator)
    inputs = {}
    for name, shape in case.inputs.items():
        if name == "ids":
            inputs[name] = torch.randint(VOCABULARY, shape, generator=generator)
            inputs[name][:, 0] = case.arguments["padding_idx"] or 0
        else:
            inputs[name] = normal(shape, generator, case.spread).requires_grad_()
    lengths = [tensor.shape[-2] for tensor in inputs.values()]
    masks = {name: draw_mask(mask, masked_lengths(case.module, name, lengths), generator)
             for name, mask in case.masks.items()}
    y = call_module(module, inputs, masks)
    return backward(y, inputs | masks, dict(module.named_parameters()), generator)


X, MEMORY = (BATCH, T_Q, WIDTH), (BATCH, T_K, WIDTH)
ONE = {"x": X}


def linear():
    for bias in (True, False):
        arguments = {"in_features": WIDTH, "out_features": 11, "bias": bias}
        yield Case("bias" if bias else "no_bias", "Linear", arguments, ONE)
    yield Case("matrix", "Linear", {"in_features": 5, "out_features": 1, "bias": True}, {"x": (6, 5)})


def embedding():
    for name, padding in (("plain", None), ("padding_first", 0), ("padding_inside", 3)):
        arguments = {"num_embeddings": VOCABULARY, "embedding_dim": WIDTH, "padding_idx": padding}
        yield Case(name, "Embedding", arguments, {"ids": (BATCH, 6)})


def norm():
    """RMSNorm's default eps is that of the dtype; here it is f32's, stated."""
    shape = {"normalized_shape": 11}
    x = {"x": (BATCH, 3, 11)}
    yield Case("layer_norm", "LayerNorm", shape, x)
    yield Case("layer_norm_plain", "LayerNorm", shape | {"elementwise_affine": False}, x)
    yield Case("layer_norm_no_bias", "LayerNorm", shape | {"bias": False}, x)
    yield Case("layer_norm_eps", "LayerNorm", shape | {"eps": 0.125}, x)
    yield Case("layer_norm_one_column", "LayerNorm", {"normalized_shape": 1}, {"x": (3, 1)})
    yield Case("rms_norm", "RMSNorm", shape | {"eps": torch.finfo(torch.float32).eps}, x)
    yield Case("rms_norm_plain", "RMSNorm", shape | {"eps": 1e-6, "elementwise_affine": False}, x)
    yield Case("rms_norm_eps", "RMSNorm", shape | {"eps": 0.125}, x)


def activation():
    modules = {"gelu": ("GELU", {}), "gelu_tanh": ("GELU", {"approximate": "tanh"}), "relu": ("ReLU", {}),
               "silu": ("SiLU", {}), "tanh": ("Tanh", {}), "sigmoid": ("Sigmoid", {})}
    for name, (module, arguments) in modules.items():
        yield Case(name, module, arguments, {"x": (3, 21)}, spread=3.0)


def multihead():
    module, sizes = "MultiheadAttention", {"embed_dim": WIDTH, "num_heads": HEADS}
    cross = {"x": X, "context": MEMORY}
    three = {"x": X, "key": (BATCH, T_K, 5), "value": (BATCH, T_K, 7)}
    widths = sizes | {"kdim": 5, "vdim": 7}
    causal, lengths = {"attn_mask": "causal"}, {"key_padding_mask": [5, 3]}
    yield Case("self", module, sizes, ONE)
    yield Case("self_no_bias", module, sizes | {"bias": False}, ONE)
    yield Case("self_causal", module, sizes, ONE, causal)
    yield Case("self_lengths", module, sizes, ONE, lengths)
    yield Case("self_causal_lengths", module, sizes, ONE, causal | lengths)
    yield Case("self_float_mask", module, sizes, ONE, {"attn_mask": "float"})
    yield Case("self_four_heads", module, sizes | {"num_heads": 4}, ONE)
    yield Case("cross", module, sizes, cross)
    yield Case("cross_lengths", module, sizes, cross, {"key_padding_mask": [2, 4]})
    yield Case("cross_float_mask", module, sizes, cross, {"attn_mask": "float"})
    yield Case("key_value", module, sizes, {"x": X, "key": MEMORY, "value": MEMORY})
    yield Case("widths", module, widths, three)
    yield Case("widths_no_bias", module, widths | {"bias": False}, three)
    yield Case("bias_kv", module, sizes | {"add_bias_kv": True}, ONE)
    yield Case("bias_kv_causal", module, sizes | {"add_bias_kv": True}, ONE, causal)
    yield Case("bias_kv_lengths", module, sizes | {"add_bias_kv": True}, ONE, lengths)
    yield Case("bias_kv_widths", module, widths | {"add_bias_kv": True}, three)
    yield Case("zero_attn", module, sizes | {"add_zero_attn": True}, ONE)
    yield Case("zero_attn_causal", module, sizes | {"add_zero_attn": True}, ONE, causal)
    yield Case("bias_kv_zero_attn", module, sizes | {"add_bias_kv": True, "add_zero_attn": True}, cross)


LAYER = {"d_model": WIDTH, "nhead": HEADS, "dim_feedforward": HIDDEN}


def layer_name(norm_first, activation, bias=True):
    return f"{'pre' if norm_first else 'post'}_norm_{activation}" + ("" if bias else "_no_bias")


def layers(module, inputs, masks):
    """The grid of a layer's options, and its masks on two of its points."""
    points = (("relu", True), ("relu", False), ("gelu", True))  # activation, bias
    for norm_first, (activation, bias) in itertools.product((False, True), points):
        options = {"norm_first": norm_first, "activation": activation, "bias": bias}
        yield Case(layer_name(norm_first, activation, bias), module, LAYER | options, inputs)
    for norm_first, (name, mask) in itertools.product((False, True), masks.items()):
        options = {"norm_first": norm_first, "activation": "gelu", "bias": True}
        yield Case(layer_name(norm_first, "gelu") + f"_{name}", module, LAYER | options, inputs, mask)


def encoder_layer():
    causal, lengths = {"src_mask": "causal"}, {"src_key_padding_mask": [3, 5]}
    yield from layers("TransformerEncoderLayer", ONE,
                      {"causal": causal, "lengths": lengths, "causal_lengths": causal | lengths})
    options = {"norm_first": True, "activation": "gelu", "layer_norm_eps": 0.125}
    yield Case("eps", "TransformerEncoderLayer", LAYER | options, ONE)


WITH_MEMORY = {"x": X, "memory": MEMORY}
DECODER_MASKS = {"tgt_mask": "causal", "tgt_key_padding_mask": [5, 3], "memory_key_padding_mask": [2, 4]}


def decoder_layer():
    yield from layers("TransformerDecoderLayer", WITH_MEMORY,
                      {"causal": {"tgt_mask": "causal"}, "all_masks": DECODER_MASKS})


def stacks(module, inputs, masks):
    for norm_first, norm in itertools.product((False, True), (False, True)):
        layer = LAYER | {"norm_first": norm_first, "activation": "gelu" if norm_first else "relu"}
        name = f"{'pre' if norm_first else 'post'}_norm" + ("_final_norm" if norm else "")
        yield Case(name, module, {"layer": layer, "num_layers": 2, "norm": norm}, inputs, masks if norm else {})
    layer = LAYER | {"norm_first": True, "activation": "gelu", "bias": False}
    yield Case("no_bias", module, {"layer": layer, "num_layers": 1, "norm": True}, inputs)


def encoder():
    yield from stacks("TransformerEncoder", ONE, {"mask": "causal", "src_key_padding_mask": [3, 5]})


def decoder():
    yield from stacks("TransformerDecoder", WITH_MEMORY, DECODER_MASKS)


def transformer():
    sizes = LAYER | {"num_encoder_layers": 2, "num_decoder_layers": 2}
    inputs = {"src": MEMORY, "tgt": X}
    masks = {"tgt_mask": "causal", "src_key_padding_mask": [2, 4], "tgt_key_padding_mask": [5, 3],
             "memory_key_padding_mask": [2, 4]}
    yield Case("post_norm", "Transformer", sizes, inputs, {"tgt_mask": "causal"})
    yield Case("pre_norm_all_masks", "Transformer", sizes | {"norm_first": True, "activation": "gelu"}, inputs, masks)


def swiglu():
    for bias in (False, True):
        yield Case("bias" if bias else "no_bias", "SwiGlu", {"width": WIDTH, "hidden": HIDDEN, "bias": bias}, ONE)


def grouped_attention():
    sizes, x = {"width": 16, "heads": 4, "kv_heads": 2}, {"x": (BATCH, 4, 16)}
    options = {
        "plain": {},
        "one_kv_head": {"kv_heads": 1},
        "bias": {"bias": True},
        "rotary_halves": {"rotary": "halves"},
        "rotary_interleaved": {"rotary": "interleaved", "base": 500.0},
        "alibi": {"alibi": True},
        "alibi_both_sides": {"alibi": True, "causal": False},
        "rotary_alibi": {"rotary": "halves", "alibi": True, "bias": True},
    }
    for name, chosen in options.items():
        yield Case(name, "GroupedAttention", sizes | chosen, x)


def positions():
    yield Case("sinusoidal", "SinusoidalPositions", {"width": WIDTH}, {"x": (BATCH, 6, WIDTH)})
    yield Case("sinusoidal_odd_width", "SinusoidalPositions", {"width": 7}, {"x": (1, 3, 7)})


def patches():
    images = {"x": (BATCH, 3, 4, 6)}
    for bias in (True, False):
        arguments = {"channels": 3, "patch": 2, "embed_dim": WIDTH, "bias": bias}
        yield Case("bias" if bias else "no_bias", "PatchEmbedding", arguments, images)


FAMILIES = (linear, embedding, norm, activation, multihead, encoder_layer, decoder_layer, encoder, decoder, transformer,
            swiglu, grouped_attention, positions, patches)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    directory = parser.parse_args().directory
    directory.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for family in FAMILIES:
        file = GoldenFile(directory / f"{family.__name__}.safetensors")
        for case in family():
            options = {"module": case.module, "arguments": case.arguments, "masks": case.masks}
            file.add(case.name, options, compute(case))
        file.write()


if __name__ == "__main__":
    main()
