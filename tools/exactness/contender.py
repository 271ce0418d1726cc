"""A process that computes attention: it reads sizes and tensors and answers with tensors (heed_rows.cpp)."""

import subprocess
import sys

import torch


class Contender:
    def __init__(self, line, environment=None):
        self.line = [str(part) for part in line]
        self.process = subprocess.Popen(self.line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self.says = self.process.stdout.readline().decode().strip()
        if not self.says:
            self.fail()

    def fail(self):
        sys.exit(f"measure: error: {self.line[0]} ended early; its message is above")

    def compute(self, inputs, cell):
        """out, d_q, d_k, d_v by name for q, k, v and d_out, which are [B, H, T, D]."""
        q, k = inputs[0], inputs[1]
        sizes = [q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3], int(cell.causal)]
        try:
            self.process.stdin.write((" ".join(map(str, sizes)) + "\n").encode())
            for tensor in inputs:
                self.process.stdin.write(tensor.contiguous().numpy().data)
            self.process.stdin.flush()
        except BrokenPipeError:
            self.fail()
        shapes = {"out": q.shape, "d_q": q.shape, "d_k": k.shape, "d_v": k.shape}
        return {name: self.read(torch.empty(shape)) for name, shape in shapes.items()}

    def read(self, tensor):
        if self.process.stdout.readinto(tensor.numpy()) != 4 * tensor.numel():
            self.fail()
        return tensor
