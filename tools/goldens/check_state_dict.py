#!/usr/bin/env python3
"""Loads a state dict that Heed saved into PyTorch's module and compares what the two make of the same input.

    python3 -m pip install torch numpy safetensors      # torch 2.5 or newer, CPU
    tools/goldens/check_state_dict.py STATE.safetensors RUN.safetensors Linear '{"in_features": 8, "out_features": 3}'

STATE has the parameters under PyTorch's names, all of them and nothing else (strict=True). RUN has the call: in/NAME
for each input and mask, named as in tests/golden/nn (golden_file.py), and out/y. MODULE and ARGUMENTS are those of a
golden's options. PyTorch computes in float64. Prints the largest error, relative to the largest output or to 1; exits
with 1 where it is above 1e-5, and with 2 where PyTorch cannot load or call the module.
"""

import argparse
import json
import sys

import safetensors.torch
import torch
from modules import call_module, make_module

MOST_ERROR = 1e-5
ORDER = ("ids", "src", "tgt", "x", "context", "key", "value", "memory")  # of the inputs in a call


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("state", metavar="STATE", help="the state dict")
    parser.add_argument("run", metavar="RUN", help="inputs and output")
    parser.add_argument("module", metavar="MODULE", help="its class in torch.nn or in modules.py")
    parser.add_argument("arguments", metavar="ARGUMENTS", type=json.loads, nargs="?", default={},
                        help="of its constructor, as JSON")
    parser.add_argument("--save", metavar="PATH", help="writes PyTorch's state dict there, for Heed to load")
    return parser.parse_args()


def read_run(path):
    """Inputs in the order of the call, masks, and the output. Whole numbers may be stored in any format."""
    tensors = safetensors.torch.load_file(path)
    given = {name.removeprefix("in/"): tensor for name, tensor in tensors.items() if name.startswith("in/")}
    masks = {name: tensor.bool() if not tensor.is_floating_point() else tensor.double()
             for name, tensor in given.items() if name.endswith("mask")}
    inputs = {name: given[name].long() if name == "ids" else given[name].double() for name in ORDER if name in given}
    unknown = given.keys() - masks.keys() - inputs.keys() - {"d_y"}
    if unknown or not inputs or "out/y" not in tensors:
        raise ValueError(f"{path} has {', '.join(sorted(tensors))}; expected out/y, and in/NAME with names of "
                         f"{', '.join(ORDER)} or of masks")
    return inputs, masks, tensors["out/y"].double()


def largest_error(arguments):
    module = make_module(arguments.module, arguments.arguments)
    module.load_state_dict(safetensors.torch.load_file(arguments.state), strict=True)
    if arguments.save:
        safetensors.torch.save_file(module.state_dict(), arguments.save)
    inputs, masks, expected = read_run(arguments.run)
    with torch.no_grad():
        y = call_module(module, inputs, masks)
    if y.shape != expected.shape:
        raise ValueError(f"out/y of {arguments.run} is {list(expected.shape)}; PyTorch's output is {list(y.shape)}")
    return ((y - expected).abs().max() / max(1.0, y.abs().max())).item()


def main():
    arguments = parse_arguments()
    try:
        error = largest_error(arguments)
    except (AttributeError, OSError, RuntimeError, TypeError, ValueError, safetensors.SafetensorError) as problem:
        print(f"check_state_dict: error: {problem}", file=sys.stderr)
        sys.exit(2)
    good = error <= MOST_ERROR  # false for NaN
    print(f"{arguments.module}: largest error {error:.2e}, " + ("good" if good else f"more than {MOST_ERROR}"))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
