#!/usr/bin/env python3
"""Writes tests/golden/nn/{training,optimizer,schedule}.safetensors: training by PyTorch in float64 (golden_file.py).

    python3 -m pip install torch numpy        # torch 2.5 or newer, CPU
    tools/goldens/make_training.py tests/golden/nn

training    steps of an encoder-decoder: CASE/in/src, in/tgt and in/labels [steps, B, T], CASE/param/NAME (before the
            first step), CASE/out/losses and out/norms [steps] (of the gradients before they are clipped), and
            CASE/final/NAME (parameters after the last step). The initial parameters are f32 numbers.
optimizer   CASE/param/p and in/gradients [steps, …], and out/parameters [steps, …], those after each step
schedule    CASE/out/lr [steps]: the learning rate of each step; where it follows a metric, in/metric is what the
            schedule is given after each
"""

import argparse
import pathlib

import torch
from golden_file import GoldenFile, generator_of
from make_attention import normal
from torch import nn
from torch.optim import lr_scheduler

STEPS = 10
MODEL = {"width": 16, "heads": 2, "layers": 2, "feed_forward": 32, "vocabulary": 20}
ADAMW = {"lr": 1e-3, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01}
MOST_NORM = 1.0
BATCH, SOURCE, TARGET = 3, 5, 6


class Seq2Seq(nn.Module):
    """nn.Transformer between one embedding for source and target and an output map of its own; no positions."""

    def __init__(self, width, heads, layers, feed_forward, vocabulary):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.transformer = nn.Transformer(width, heads, layers, layers, feed_forward, dropout=0.0, batch_first=True)
        self.output = nn.Linear(width, vocabulary)

    def forward(self, src, tgt):
        causal = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool).triu(1)
        return self.output(self.transformer(self.embedding(src), self.embedding(tgt), tgt_mask=causal))


def train():
    generator = generator_of("training")
    torch.manual_seed(15)
    model = Seq2Seq(**MODEL).double()
    ids = lambda length: torch.randint(MODEL["vocabulary"], (STEPS, BATCH, length), generator=generator)
    src, tgt, labels = ids(SOURCE), ids(TARGET), ids(TARGET)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = torch.optim.AdamW(model.parameters(), **ADAMW)
    losses, norms = [], []
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        for step in range(STEPS):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(src[step], tgt[step]).flatten(0, 1), labels[step].flatten())
            loss.backward()
            norms.append(nn.utils.clip_grad_norm_(model.parameters(), MOST_NORM))
            optimizer.step()
            losses.append(loss.detach())
    return (
        {"in/src": src, "in/tgt": tgt, "in/labels": labels, "out/losses": torch.stack(losses)}
        | {"out/norms": torch.stack(norms)}
        | {f"param/{name}": tensor for name, tensor in before.items()}
        | {f"final/{name}": parameter for name, parameter in model.named_parameters()}
    )


OPTIMIZERS = {
    "sgd": ("SGD", {"lr": 0.125}),
    "sgd_decay": ("SGD", {"lr": 0.125, "weight_decay": 0.25}),
    "sgd_momentum": ("SGD", {"lr": 0.125, "momentum": 0.75}),
    "sgd_momentum_dampening": ("SGD", {"lr": 0.125, "momentum": 0.75, "dampening": 0.5}),
    "sgd_nesterov": ("SGD", {"lr": 0.125, "momentum": 0.75, "nesterov": True}),
    "sgd_nesterov_decay": ("SGD", {"lr": 0.125, "momentum": 0.75, "nesterov": True, "weight_decay": 0.25}),
    "adam": ("Adam", {"lr": 1e-2}),
    "adam_decay": ("Adam", {"lr": 1e-2, "weight_decay": 0.25}),
    "adam_betas": ("Adam", {"lr": 1e-2, "betas": [0.5, 0.75], "eps": 0.125}),
    "adamw": ("AdamW", {"lr": 1e-2}),
    "adamw_decay": ("AdamW", {"lr": 1e-2, "weight_decay": 0.25}),
    "adamw_no_decay": ("AdamW", {"lr": 1e-2, "weight_decay": 0.0}),
}


def optimize(name, optimizer, arguments, steps=5):
    generator = generator_of(name)
    parameter = nn.Parameter(normal((3, 7), generator))
    before = parameter.detach().clone()
    gradients = normal((steps, 3, 7), generator)
    gradients[:, 0, 0] = 0.0
    stepper = getattr(torch.optim, optimizer)([parameter], **arguments)
    after = []
    for gradient in gradients:
        parameter.grad = gradient.clone()
        stepper.step()
        after.append(parameter.detach().clone())
    return {"param/p": before, "in/gradients": gradients, "out/parameters": torch.stack(after)}


WARM_UP = {"start_factor": 0.125, "end_factor": 1.0, "total_iters": 4}
SCHEDULES = {
    "step": ("StepLR", {"step_size": 3, "gamma": 0.5}),
    "multi_step": ("MultiStepLR", {"milestones": [2, 7], "gamma": 0.25}),
    "exponential": ("ExponentialLR", {"gamma": 0.75}),
    "linear": ("LinearLR", WARM_UP),
    "linear_down": ("LinearLR", {"start_factor": 1.0, "end_factor": 0.25, "total_iters": 8}),
    "cosine": ("CosineAnnealingLR", {"T_max": 10, "eta_min": 0.0}),
    "cosine_min": ("CosineAnnealingLR", {"T_max": 12, "eta_min": 0.125}),
    "one_cycle": ("OneCycleLR", {"max_lr": 1.0, "total_steps": 12, "cycle_momentum": False}),
    "one_cycle_linear": ("OneCycleLR", {"max_lr": 1.0, "total_steps": 12, "cycle_momentum": False, "pct_start": 0.25,
                                        "anneal_strategy": "linear", "div_factor": 8.0, "final_div_factor": 100.0}),
    "one_cycle_three_phase": ("OneCycleLR", {"max_lr": 1.0, "total_steps": 12, "cycle_momentum": False,
                                             "pct_start": 0.375, "three_phase": True}),
    "plateau": ("ReduceLROnPlateau", {"factor": 0.5, "patience": 1}),
    "plateau_cooldown": ("ReduceLROnPlateau", {"factor": 0.5, "patience": 0, "cooldown": 2, "min_lr": 0.125}),
    "plateau_max_absolute": ("ReduceLROnPlateau", {"mode": "max", "factor": 0.5, "patience": 1, "threshold": 0.5,
                                                   "threshold_mode": "abs"}),
    "warm_up_cosine": ("SequentialLR", {"linear": WARM_UP, "cosine": {"T_max": 8}, "milestones": [4]}),
}
METRIC = (4.0, 3.0, 3.0, 3.5, 3.0 - 2.0**-14, 2.5, 2.5, 2.75, 2.625, 2.5, 3.0, 1.0)
RATE = 1.0


def scheduled(schedule, arguments):
    """The rates of len(METRIC) steps."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=RATE)
    if schedule == "SequentialLR":
        parts = [lr_scheduler.LinearLR(optimizer, **arguments["linear"]),
                 lr_scheduler.CosineAnnealingLR(optimizer, **arguments["cosine"])]
        scheduler = lr_scheduler.SequentialLR(optimizer, parts, arguments["milestones"])
    else:
        scheduler = getattr(lr_scheduler, schedule)(optimizer, **arguments)
    on_plateau = schedule == "ReduceLROnPlateau"
    rates = []
    for step, metric in enumerate(METRIC):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if step + 1 < len(METRIC):  # OneCycleLR refuses a step past its last
            scheduler.step(*[metric] * on_plateau)
    metrics = {"in/metric": torch.tensor(METRIC, dtype=torch.float64)} if on_plateau else {}
    return metrics | {"out/lr": torch.tensor(rates, dtype=torch.float64)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    directory = parser.parse_args().directory
    directory.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)

    training = GoldenFile(directory / "training.safetensors")
    training.add("seq2seq", {"model": MODEL, "adamw": ADAMW, "clip_grad_norm": MOST_NORM}, train())
    training.write()

    optimizers = GoldenFile(directory / "optimizer.safetensors")
    for name, (optimizer, arguments) in OPTIMIZERS.items():
        optimizers.add(name, {"optimizer": optimizer, "arguments": arguments}, optimize(name, optimizer, arguments))
    optimizers.write()

    schedules = GoldenFile(directory / "schedule.safetensors")
    for name, (schedule, arguments) in SCHEDULES.items():
        options = {"schedule": schedule, "lr": RATE, "arguments": arguments}
        schedules.add(name, options, scheduled(schedule, arguments))
    schedules.write()


if __name__ == "__main__":
    main()
