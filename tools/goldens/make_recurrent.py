#!/usr/bin/env python3
"""Writes tests/golden/nn/recurrent.safetensors: small recurrent layers and PyTorch's answers (golden_file.py).

    python3 -m pip install torch numpy        # torch 2.5 or newer, CPU
    tools/goldens/make_recurrent.py tests/golden/nn

Everything is computed in float64, by PyTorch's modules with batch_first and by autograd. Inputs and parameters are
multiples of 1/16 or 1/64, exact in f32. A case's options are {"module": NAME, "arguments": those of the constructor,
"lengths": those of the items, which are then packed with enforce_sorted=False, or null}. Besides x and y a case has the
states h_0, h_n and, for LSTM, c_0, c_n; h_0 and c_0 are missing where the call has none.
"""

import argparse
import itertools
import pathlib

import torch
from golden_file import GoldenFile, draw_parameters, generator_of
from make_attention import normal
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

BATCH, TOKENS, INPUTS = 3, 5, 6
LENGTHS = [3, 5, 1]
KINDS = {
    "rnn_tanh": ("RNN", {"nonlinearity": "tanh", "hidden_size": 4}),
    "rnn_relu": ("RNN", {"nonlinearity": "relu", "hidden_size": 5}),
    "lstm": ("LSTM", {"hidden_size": 5}),
    "gru": ("GRU", {"hidden_size": 4}),
}


def run(module, x, states, lengths):
    """y, (h_n) or (h_n, c_n)."""
    states = tuple(states.values()) or None
    if states is not None and not isinstance(module, nn.LSTM):
        (states,) = states
    if lengths is None:
        y, last = module(x, states)
    else:
        packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
        y, last = module(packed, states)
        y, _ = pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])
    return y, last if isinstance(last, tuple) else (last,)


def compute(name, module, initial, lengths):
    generator = generator_of(name)
    draw_parameters(module, generator)
    x = normal((BATCH, TOKENS, INPUTS), generator).requires_grad_()
    names = ("h", "c") if isinstance(module, nn.LSTM) else ("h",)
    rows = module.num_layers * (2 if module.bidirectional else 1)
    shape = (rows, BATCH, module.hidden_size)
    states = {f"{each}_0": normal(shape, generator).requires_grad_() for each in names} if initial else {}
    y, last = run(module, x, states, lengths)
    outputs = {"y": y} | {f"{each}_n": state for each, state in zip(names, last)}
    gradients = {each: normal(tensor.shape, generator) for each, tensor in outputs.items()}
    torch.autograd.backward(list(outputs.values()), list(gradients.values()))
    inputs = {"x": x} | states
    parameters = dict(module.named_parameters())
    return (
        {f"in/{each}": tensor for each, tensor in inputs.items()}
        | {f"in/d_{each}": tensor for each, tensor in gradients.items()}
        | {f"out/{each}": tensor for each, tensor in outputs.items()}
        | {f"d/{each}": tensor.grad for each, tensor in inputs.items()}
        | {f"param/{each}": parameter for each, parameter in parameters.items()}
        | {f"grad/{each}": parameter.grad for each, parameter in parameters.items()}
    )


def variants():
    """Names and options of the cases of a kind: (name, layers, bidirectional, bias, initial states, lengths)."""
    for layers, both, lengths in itertools.product((1, 2), (False, True), (None, LENGTHS)):
        name = f"{layers}_layers{'_both' if both else ''}{'_lengths' if lengths else ''}"
        yield name, layers, both, True, True, lengths
    for lengths in (None, LENGTHS):
        yield f"no_bias_no_states{'_lengths' if lengths else ''}", 2, True, False, False, lengths


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    directory = parser.parse_args().directory
    directory.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    file = GoldenFile(directory / "recurrent.safetensors")
    for kind, (module_name, sizes) in KINDS.items():
        for variant, layers, both, bias, initial, lengths in variants():
            name = f"{kind}_{variant}"
            arguments = sizes | {"input_size": INPUTS, "num_layers": layers, "bidirectional": both, "bias": bias}
            module = getattr(nn, module_name)(batch_first=True, **arguments).double()
            options = {"module": module_name, "arguments": arguments, "lengths": lengths}
            file.add(name, options, compute(name, module, initial, lengths))
    file.write()


if __name__ == "__main__":
    main()
