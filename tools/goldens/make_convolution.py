#!/usr/bin/env python3
"""Writes tests/golden/nn/convolution.safetensors: convolutions, pooling and PyTorch's answers (golden_file.py).

    python3 -m pip install torch numpy        # torch 2.5 or newer, CPU
    tools/goldens/make_convolution.py tests/golden/nn

Everything is computed in float64 by PyTorch's modules and autograd, from inputs that f32 holds exactly; many of them are
equal, so that maxima are tied. Sequences are stored with channels last, [B, T, C], and images as PyTorch has them,
[B, C, H, W]. A case's options are {"module": NAME, "arguments": those of the constructor}. GlobalMaxPool and
GlobalMeanPool are plain formulas over the first lengths[b] positions, 0 where there are none.
"""

import argparse
import itertools
import pathlib

import torch
from golden_file import GoldenFile, backward, draw_parameters, generator_of
from make_attention import normal

BATCH, CHANNELS, OUTPUTS = 2, 4, 6
LENGTHS = [5, 0, 7, 1]


def conv1d():
    """Every kernel, stride, padding, dilation and group count at odd lengths."""
    grid = itertools.product((1, 3, 7), (1, 3), (0, 2), (1, 2), (1, 2))
    for number, (kernel, stride, padding, dilation, groups) in enumerate(grid):
        bias = number % 3 != 0
        length = 13 if number % 2 == 0 else 17
        arguments = {"in_channels": CHANNELS, "out_channels": OUTPUTS, "kernel_size": kernel, "stride": stride,
                     "padding": padding, "dilation": dilation, "groups": groups, "bias": bias}
        name = f"conv1d_k{kernel}_s{stride}_p{padding}_d{dilation}_g{groups}" + ("" if bias else "_no_bias")
        yield name, "Conv1d", arguments, (BATCH, length, CHANNELS)
    depthwise = {"in_channels": CHANNELS, "out_channels": CHANNELS, "kernel_size": 3, "groups": CHANNELS}
    yield "conv1d_depthwise", "Conv1d", depthwise, (BATCH, 9, CHANNELS)
    whole = {"in_channels": CHANNELS, "out_channels": OUTPUTS, "kernel_size": 7, "stride": 5}
    yield "conv1d_kernel_of_the_length", "Conv1d", whole, (BATCH, 7, CHANNELS)
    apart = {"in_channels": CHANNELS, "out_channels": OUTPUTS, "kernel_size": 2, "stride": 5, "padding": 1}
    yield "conv1d_stride_above_kernel", "Conv1d", apart, (BATCH, 13, CHANNELS)
    both = {"in_channels": CHANNELS, "out_channels": OUTPUTS, "kernel_size": 3, "stride": 4, "dilation": 6}
    yield "conv1d_stride_and_dilation_share_a_factor", "Conv1d", both, (BATCH, 23, CHANNELS)


def pooling():
    x = (BATCH, 11, 5)
    for kernel, stride, padding in ((2, None, 0), (3, 2, 1), (3, 1, 1), (2, 3, 0), (11, 1, 0), (1, 1, 0)):
        arguments = {"kernel_size": kernel, "stride": stride, "padding": padding}
        name = f"k{kernel}_s{stride or kernel}_p{padding}"
        yield f"max_pool1d_{name}", "MaxPool1d", arguments, x
        yield f"avg_pool1d_{name}", "AvgPool1d", arguments, x
    images = (BATCH, 3, 6, 7)
    yield "max_pool2d", "MaxPool2d", {"kernel_size": 2}, images
    yield "max_pool2d_overlapping", "MaxPool2d", {"kernel_size": 3, "stride": 2, "padding": 1}, images


def compute(name, module, arguments, shape):
    generator = generator_of(name)
    layer = getattr(torch.nn, module)(**arguments).double()
    draw_parameters(layer, generator)
    x = normal(shape, generator).requires_grad_()
    y = layer(x) if len(shape) == 4 else layer(x.transpose(1, 2)).transpose(1, 2)
    return backward(y, {"x": x}, dict(layer.named_parameters()), generator)


def global_pool(x, lengths, reduce):
    """reduce() of the first lengths[b] rows of item b."""
    return torch.stack([reduce(item[:n]) if n > 0 else item.sum(0) * 0 for item, n in zip(x, lengths)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    directory = parser.parse_args().directory
    torch.set_num_threads(1)
    file = GoldenFile(directory / "convolution.safetensors")
    for name, module, arguments, shape in itertools.chain(conv1d(), pooling()):
        file.add(name, {"module": module, "arguments": arguments}, compute(name, module, arguments, shape))
    formulas = {"GlobalMaxPool": lambda rows: rows.max(0).values, "GlobalMeanPool": lambda rows: rows.mean(0)}
    for module, reduce in formulas.items():
        for name, lengths in ((module, [7] * len(LENGTHS)), (module + "_lengths", LENGTHS)):
            generator = generator_of(name)
            x = normal((len(LENGTHS), 7, 3), generator).requires_grad_()
            tensors = backward(global_pool(x, lengths, reduce), {"x": x}, {}, generator)
            file.add(name, {"module": module, "arguments": {"lengths": lengths}}, tensors)
    file.write()


if __name__ == "__main__":
    main()
