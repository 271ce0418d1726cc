"""Goldens of the training stack: a safetensors file per family, with a case's tensors under its name:

    CASE/in/NAME       inputs: the module's own (x, memory, ids …), masks under PyTorch's names, and d_y
    CASE/out/y         output
    CASE/d/NAME        gradient of the input NAME
    CASE/param/NAME    parameter, under its name in PyTorch's state dict
    CASE/grad/NAME     its gradient

The metadata has a key CASE: its options as JSON. Results are F64. Inputs and parameters are F32, which holds them
exactly, or I64: ids, labels, and masks of 0 and 1, where 1 hides a key as True does in PyTorch.
tests/support/golden_file.h reads these files.
"""

import json
import struct
import zlib

import torch
from make_attention import normal

DTYPES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}


def generator_of(name):
    """The random numbers of a case, the same whatever cases stand before it."""
    return torch.Generator().manual_seed(zlib.crc32(name.encode()))


def stored(name, tensor):
    """As it is written to the file."""
    tensor = tensor.detach().contiguous()
    if not tensor.is_floating_point():
        return tensor.long()
    if not name.startswith(("in/", "param/")):
        return tensor.double()
    if not torch.equal(tensor.float().double(), tensor):
        raise ValueError(f"{name} has numbers that f32 does not hold")
    return tensor.float()


class GoldenFile:
    """Collects cases and writes them. Not with the safetensors package, which keeps metadata in a hash map and so
    writes it in another order each time: the same cases have to give the same bytes."""

    def __init__(self, path):
        self.path = path
        self.metadata = {}
        self.tensors = {}

    def add(self, case, options, tensors):
        """`tensors` by name, "in/x" …"""
        if case in self.metadata:
            raise ValueError(f"{self.path} has two cases named {case}")
        self.metadata[case] = json.dumps(options)
        self.tensors |= {f"{case}/{name}": stored(name, tensor) for name, tensor in tensors.items()}

    def write(self):
        header, offset = {"__metadata__": self.metadata}, 0
        for name, tensor in self.tensors.items():
            end = offset + tensor.nbytes
            header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, end]}
            offset = end
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with open(self.path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for tensor in self.tensors.values():
                file.write(tensor.numpy().tobytes())


def draw_parameters(module, generator):
    """Multiples of 1/64, exact in f32: weights and biases around 0, and of norms around 1."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            is_scale = name.endswith("weight") and parameter.dim() == 1
            parameter.copy_(normal(parameter.shape, generator) / 4 + (1 if is_scale else 0))


def backward(y, inputs, parameters, generator):
    """The tensors of a case from its output, by backward from a d_y drawn here. Masks and ids in `inputs` have no
    gradient."""
    d_y = normal(y.shape, generator)
    y.backward(d_y)
    return (
        {f"in/{name}": tensor for name, tensor in inputs.items()}
        | {"in/d_y": d_y, "out/y": y}
        | {f"d/{name}": tensor.grad for name, tensor in inputs.items() if tensor.requires_grad}
        | {f"param/{name}": parameter for name, parameter in parameters.items()}
        | {f"grad/{name}": parameter.grad for name, parameter in parameters.items()}
    )
