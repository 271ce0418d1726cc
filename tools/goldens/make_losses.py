#!/usr/bin/env python3
"""Writes tests/golden/nn/loss.safetensors: losses and PyTorch's answers (golden_file.py).

    python3 -m pip install torch numpy        # torch 2.5 or newer, CPU
    tools/goldens/make_losses.py tests/golden/nn

Everything is computed in float64 by torch.nn.functional and by autograd, from inputs that f32 holds exactly. A case's
options are {"function": NAME, "arguments": those that are not tensors}; its tensors x, target, weight and pos_weight
are inputs. d_y has the shape of the loss, which is [] unless reduction is none.
"""

import argparse
import itertools
import pathlib

import torch
from golden_file import GoldenFile, backward, generator_of
from make_attention import normal

TOKENS, CLASSES = 7, 5
REDUCTIONS = ("mean", "sum", "none")


def f32(tensor):
    """Rounded to f32, in float64."""
    return tensor.float().double()


def probabilities(generator, log=False):
    return f32(torch.log_softmax(normal((TOKENS, CLASSES), generator), -1) if log else
               torch.softmax(normal((TOKENS, CLASSES), generator), -1))


def labels(generator, ignored=None):
    result = torch.randint(CLASSES, (TOKENS,), generator=generator)
    if ignored is not None:
        result[1::3] = ignored
    return result


def class_weight(generator, size=CLASSES):
    return normal((size,), generator).abs() + 0.25


def cross_entropy():
    grid = itertools.product((0.0, 0.125), (None, -100, 2), (False, True), REDUCTIONS)
    for smoothing, ignored, weighted, reduction in grid:
        name = "cross_entropy" + ("_smoothed" if smoothing else "") + (f"_ignore_{ignored}" if ignored else "")
        name += ("_weighted" if weighted else "") + f"_{reduction}"
        generator = generator_of(name)
        inputs = {"x": normal((TOKENS, CLASSES), generator).requires_grad_(), "target": labels(generator, ignored)}
        inputs |= {"weight": class_weight(generator)} if weighted else {}
        arguments = {"reduction": reduction, "label_smoothing": smoothing}
        arguments |= {"ignore_index": ignored} if ignored is not None else {}
        yield name, "cross_entropy", arguments, inputs
    for smoothing in (0.0, 0.125):
        name = "cross_entropy_probabilities" + ("_smoothed" if smoothing else "")
        generator = generator_of(name)
        inputs = {"x": normal((TOKENS, CLASSES), generator).requires_grad_(), "target": probabilities(generator)}
        yield name, "cross_entropy", {"reduction": "mean", "label_smoothing": smoothing}, inputs


def nll_loss():
    for ignored, weighted, reduction in itertools.product((None, 2), (False, True), REDUCTIONS):
        name = "nll_loss" + (f"_ignore_{ignored}" if ignored else "") + ("_weighted" if weighted else "")
        name += f"_{reduction}"
        generator = generator_of(name)
        inputs = {"x": probabilities(generator, log=True).requires_grad_(), "target": labels(generator, ignored)}
        inputs |= {"weight": class_weight(generator)} if weighted else {}
        arguments = {"reduction": reduction} | ({"ignore_index": ignored} if ignored is not None else {})
        yield name, "nll_loss", arguments, inputs


def kl_div():
    for log_target, reduction in itertools.product((False, True), REDUCTIONS + ("batchmean",)):
        name = "kl_div" + ("_log_target" if log_target else "") + f"_{reduction}"
        generator = generator_of(name)
        inputs = {"x": probabilities(generator, log=True).requires_grad_(),
                  "target": probabilities(generator, log=log_target)}
        if not log_target:
            inputs["target"][0, 1] = 0.0  # 0 · log 0 counts as 0
        yield name, "kl_div", {"reduction": reduction, "log_target": log_target}, inputs


def binary_cross_entropy():
    for weighted, positive, reduction in itertools.product((False, True), (False, True), REDUCTIONS):
        name = "binary_cross_entropy" + ("_weighted" if weighted else "") + ("_pos_weight" if positive else "")
        name += f"_{reduction}"
        generator = generator_of(name)
        inputs = {"x": normal((TOKENS, CLASSES), generator, 4.0).requires_grad_(), "target": probabilities(generator)}
        inputs |= {"weight": class_weight(generator)} if weighted else {}
        inputs |= {"pos_weight": class_weight(generator)} if positive else {}
        yield name, "binary_cross_entropy_with_logits", {"reduction": reduction}, inputs


def mse_loss():
    for reduction in REDUCTIONS:
        generator = generator_of(f"mse_loss_{reduction}")
        inputs = {name: normal((TOKENS, CLASSES), generator).requires_grad_() for name in ("x", "target")}
        yield f"mse_loss_{reduction}", "mse_loss", {"reduction": reduction}, inputs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    directory = parser.parse_args().directory
    directory.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    file = GoldenFile(directory / "loss.safetensors")
    for family in (cross_entropy, nll_loss, kl_div, binary_cross_entropy, mse_loss):
        for name, function, arguments, inputs in family():
            x, target, *_ = inputs.values()
            weights = {key: tensor for key, tensor in inputs.items() if key not in ("x", "target")}
            y = getattr(torch.nn.functional, function)(x, target, **weights, **arguments)
            tensors = backward(y, inputs, {}, generator_of(name + "_d_y"))
            file.add(name, {"function": function, "arguments": arguments}, tensors)
    file.write()


if __name__ == "__main__":
    main()
