"""Measures rows in one peer: peer.py torch|onnxruntime THREADS HEED ISA

First says {"version": …}. Then reads a row of `heed bench --json` on each line and answers {"of_peak": …}, for a row of
kind train {"milliseconds": …}, or {} where the peer cannot do it. The harness is that of bench/harness.cpp: each
repetition lies between two probes of the machine, repetitions from a busy phase are repeated, and the median counts.
"""

import copy
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

LEAST_SECONDS = 4e-3
MOST_ATTEMPTS = 3
BUSY_BELOW = 0.94
FIRST_PROBES = 20
FIRST_PAUSE, LONGEST_PAUSE = 5e-3, 0.16


def waiting_seconds():
    """Seconds that the threads of this process have been ready to run while others had the cores."""
    stats = [path.read_text().split() for path in Path("/proc/self/task").glob("*/schedstat")]
    return sum(int(stat[1]) for stat in stats) * 1e-9


class Harness:
    def __init__(self, heed, isa, threads):
        line = [heed, "bench", "probe", "--each-line", "--json", "--threads", str(threads)]
        self.threads = threads
        self.prober = subprocess.Popen(line + (["--isa", isa] if isa else []), stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
        self.read_shares = []
        for _ in range(FIRST_PROBES):
            self.probe()

    def probe(self):
        print(file=self.prober.stdin, flush=True)
        probe = json.loads(self.prober.stdout.readline())
        self.read_shares.append(probe["read_share"])
        return probe

    def calm(self, repetition):
        """1 at best; below it where reads fell beside multiply-adds, the peak changed, or the core was taken."""
        _, on_core, before, after = repetition
        quiet = sorted(self.read_shares)[int(0.9 * (len(self.read_shares) - 1))]
        steady = min(before["gflops"], after["gflops"]) / max(before["gflops"], after["gflops"])
        return min(1, min(before["read_share"], after["read_share"]) / quiet) * steady * on_core

    def repeat(self, call, calls):
        before = self.probe()
        waiting_before, begin = waiting_seconds(), time.perf_counter()
        if self.threads > 1:
            call()  # as in Heed's harness: cores that slept are at full speed when the clock starts
        start = time.perf_counter()
        for _ in range(calls):
            call()
        end = time.perf_counter()
        on_core = max(0, 1 - (waiting_seconds() - waiting_before) / ((end - begin) * self.threads))
        if self.threads > 1:
            time.sleep(2e-3)  # a pool that spins gives the cores back
        return (end - start) / calls, on_core, before, self.probe()

    def measure(self, call, wanted):
        """As many repetitions as are wanted, quiet ones if there are enough."""
        call()
        start = time.perf_counter()
        call()
        calls = max(1, round(LEAST_SECONDS / (time.perf_counter() - start)))
        repetitions, pause = [], FIRST_PAUSE
        while len(repetitions) < wanted * MOST_ATTEMPTS:
            repetitions.append(self.repeat(call, calls))
            quiet = [each for each in repetitions if self.calm(each) >= BUSY_BELOW]
            if len(quiet) == wanted:
                return quiet
            if self.calm(repetitions[-1]) < BUSY_BELOW:
                pause = min(2 * pause, LONGEST_PAUSE)
                time.sleep(pause)
            else:
                pause = FIRST_PAUSE
        return sorted(repetitions, key=self.calm)[-wanted:]

    def share_of_peak(self, call, row):
        flops = row["gflops"] * 1e9 * row["milliseconds"] * 1e-3
        return statistics.median(flops * 1e-9 / seconds / ((before["gflops"] + after["gflops"]) / 2)
                                 for seconds, _, before, after in self.measure(call, row["repetitions"]))

    def milliseconds(self, call, row):
        return statistics.median(1e3 * seconds for seconds, *_ in self.measure(call, row["repetitions"]))


class Torch:
    def __init__(self, threads):
        import torch
        torch.set_num_threads(threads)
        self.torch = torch
        self.version = torch.__version__.split("+")[0]

    def calls(self, row):
        """The calls that do a row; the fastest one counts."""
        if row["kind"] == "train":
            from torch_training import training_step
            return [training_step(row["name"])]
        if "width" in row:
            return self.layer(row)
        return [self.matmul(row) if row["kind"] == "matmul" else self.attention(row)]

    def matmul(self, row):
        torch = self.torch
        a, b = torch.randn(row["m"], row["k"]), torch.randn(row["k"], row["n"])
        c = torch.empty(row["m"], row["n"])

        def call():
            with torch.inference_mode():
                torch.matmul(a, b, out=c)
        return call

    def inputs(self, row):
        """q, k, v as [B, H, T, D] views of the row's layout."""
        torch = self.torch
        batch, t_q, t_k, dim = row["batch"], row["t_q"], row["t_k"], row["dim"]
        heads, kv_heads = row["heads"], row["kv_heads"]
        if row["layout"] == "qkv":
            fused = torch.randn(batch, t_q, heads + 2 * kv_heads, dim)
            return [part.transpose(1, 2) for part in fused.split([heads, kv_heads, kv_heads], dim=2)]
        if row["layout"] == "bthd":
            sizes = [(t_q, heads), (t_k, kv_heads), (t_k, kv_heads)]
            return [torch.randn(batch, length, count, dim).transpose(1, 2) for length, count in sizes]
        sizes = [(heads, t_q), (kv_heads, t_k), (kv_heads, t_k)]
        return [torch.randn(batch, count, length, dim) for count, length in sizes]

    def attention(self, row):
        torch = self.torch
        inputs = self.inputs(row)
        if row["dtype"] == "bf16":
            inputs = [tensor.bfloat16() for tensor in inputs]
        # The one query of a decode step sees all keys; PyTorch's causal would show it the first one only.
        causal = row["mask"] == "causal" and row["kind"] != "decode"
        options = {"is_causal": causal, "enable_gqa": row["heads"] != row["kv_heads"]}
        if row["mask"] == "window":
            distance = torch.arange(row["t_q"])[:, None] - torch.arange(row["t_k"])[None, :]
            options["attn_mask"] = (distance >= 0) & (distance < row["window"])

        forward, learned = self.with_option(row, inputs) if "option" in row else (None, [])
        if forward is None:
            def forward():
                return torch.nn.functional.scaled_dot_product_attention(*inputs, **options)

        inputs = inputs + learned
        if row["kind"] in ("forward", "decode"):
            def call():
                with torch.inference_mode():
                    forward()
            return call
        for tensor in inputs:
            tensor.requires_grad_()
        saved = forward()
        d_out = torch.randn_like(saved)
        if row["kind"] == "backward":
            return lambda: torch.autograd.grad(saved, inputs, d_out, retain_graph=True)
        return lambda: torch.autograd.grad(forward(), inputs, d_out)

    def with_option(self, row, inputs):
        """Attention with a score option: biases through the mask of the fused kernel, the others spelled out. Returns
        the call and what it learns."""
        torch, option = self.torch, row["option"]
        q, k, v = inputs
        heads, t_q, t_k = row["heads"], row["t_q"], row["t_k"]
        fused = torch.nn.functional.scaled_dot_product_attention
        causal = row["mask"] == "causal"
        if option == "dropout":
            return lambda: fused(q, k, v, dropout_p=0.1, is_causal=causal), []
        distance = torch.arange(t_k)[None, :] - torch.arange(t_q)[:, None]
        hidden = torch.zeros(t_q, t_k)
        if causal:
            hidden.masked_fill_(distance > 0, float("-inf"))
        if option in ("alibi", "table", "bias"):
            shape = {"alibi": (heads,), "table": (32, heads), "bias": (1, heads, t_q, t_k)}[option]
            learned = torch.randn(shape)
            # Any map of distances to 32 buckets costs the same as T5's.
            bucket = distance.abs().clamp(max=31)
            bias = {"alibi": lambda: -learned[:, None, None] * distance.abs(),
                    "table": lambda: learned[bucket].permute(2, 0, 1),
                    "bias": lambda: learned}[option]
            return lambda: fused(q, k, v, attn_mask=(bias() + hidden).view(1, heads, t_q, t_k)), [learned]
        sinks = torch.randn(heads)

        def spelled_out():
            scores = (q @ k.transpose(-2, -1)) * row["dim"] ** -0.5
            if option == "cap":
                scores = 50 * torch.tanh(scores / 50)
            scores = scores + hidden
            if option == "sigmoid":
                return torch.sigmoid(scores) @ v
            if option == "sink":
                last = sinks.view(1, heads, 1, 1).expand(row["batch"], heads, t_q, 1)
                return torch.softmax(torch.cat([scores, last], -1), -1)[..., :-1] @ v
            return torch.softmax(scores, -1) @ v
        return spelled_out, [sinks] if option == "sink" else []

    def layer(self, row):
        """torch.nn.MultiheadAttention, self attention without dropout; forward as trained and as evaluated."""
        torch = self.torch
        if row["heads"] != row["kv_heads"]:
            return []
        if row.get("option") == "rotary":
            return self.rotary_layer(row)
        layer = torch.nn.MultiheadAttention(row["width"], row["heads"], batch_first=True)
        x = torch.randn(row["batch"], row["t_q"], row["width"])
        causal = row["mask"] == "causal"
        mask = torch.nn.Transformer.generate_square_subsequent_mask(row["t_q"]) if causal else None

        def forward(module):
            return module(x, x, x, need_weights=False, attn_mask=mask, is_causal=causal)[0]

        def inference(module):
            with torch.inference_mode():
                forward(module)

        if row["kind"] == "forward":
            evaluated = copy.deepcopy(layer).eval()
            return [lambda: inference(layer), lambda: inference(evaluated)]
        leaves = [x.requires_grad_(), *layer.parameters()]
        d_y = torch.randn_like(x)
        if row["kind"] == "backward":
            saved = forward(layer)
            return [lambda: torch.autograd.grad(saved, leaves, d_y, retain_graph=True)]
        return [lambda: torch.autograd.grad(forward(layer), leaves, d_y)]

    def rotary_layer(self, row):
        """The same with rotary positions, which MultiheadAttention does not have: its parts, one by one."""
        torch, linear = self.torch, self.torch.nn.functional.linear
        batch, length, width, heads, dim = (row[key] for key in ("batch", "t_q", "width", "heads", "dim"))
        x = torch.randn(batch, length, width)
        w_in, w_out = torch.randn(3 * heads * dim, width) * width**-0.5, torch.randn(width, heads * dim) * width**-0.5
        b_in, b_out = torch.randn(3 * heads * dim), torch.randn(width)
        frequencies = 10000.0 ** (-torch.arange(0, dim, 2) / dim)
        angles = torch.arange(length)[:, None] * frequencies.repeat(2)[None, :]
        cosines, sines = angles.cos(), angles.sin()

        def turned(part):
            lower, upper = part.chunk(2, -1)
            return part * cosines + torch.cat([-upper, lower], -1) * sines

        def forward():
            q, k, v = linear(x, w_in, b_in).view(batch, length, 3, heads, dim).permute(2, 0, 3, 1, 4)
            heads_out = torch.nn.functional.scaled_dot_product_attention(turned(q), turned(k), v,
                                                                         is_causal=row["mask"] == "causal")
            return linear(heads_out.transpose(1, 2).reshape(batch, length, heads * dim), w_out, b_out)

        def inference():
            with torch.inference_mode():
                forward()

        if row["kind"] == "forward":
            return [inference]
        leaves = [tensor.requires_grad_() for tensor in (x, w_in, b_in, w_out, b_out)]
        d_y = torch.randn_like(x)
        return [lambda: torch.autograd.grad(forward(), leaves, d_y)]


class OnnxRuntime:
    def __init__(self, threads):
        import onnxruntime
        self.onnxruntime = onnxruntime
        self.threads = threads
        self.version = onnxruntime.__version__

    def session(self, model):
        options = self.onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        return self.onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def bound(self, model, inputs, output_shape):
        """A call of the model on memory that was given once."""
        import numpy
        session = self.session(model)
        binding = session.io_binding()
        value = self.onnxruntime.OrtValue.ortvalue_from_numpy
        for name, array in inputs.items():
            binding.bind_ortvalue_input(name, value(array))
        binding.bind_ortvalue_output("y", value(numpy.empty(output_shape, numpy.float32)))
        return lambda: session.run_with_iobinding(binding)

    def calls(self, row):
        import onnx_model
        import numpy
        if row["kind"] == "train":
            return []
        random = numpy.random.default_rng(1)
        normal = lambda *shape: random.standard_normal(shape, numpy.float32)
        if row["kind"] == "matmul":
            m, n, k = row["m"], row["n"], row["k"]
            weight = normal(k, n)
            model = onnx_model.matmul(m, weight, row["packed"])
            inputs = {"a": normal(m, k)} | ({} if row["packed"] else {"w": weight})
            return [self.bound(model, inputs, (m, n))]
        if "width" in row:
            return self.layer(row, normal)
        plain = row["kind"] == "forward" and row["layout"] == "bhtd" and row["mask"] in ("dense", "causal")
        plain = plain and "option" not in row
        if not plain or row["heads"] != row["kv_heads"]:
            return []
        if row["t_q"] != row["t_k"]:
            return []
        batch, heads, length, dim = row["batch"], row["heads"], row["t_q"], row["dim"]
        q, k, v = (normal(batch, heads, length, dim) for _ in range(3))
        rows = {"q": q, "k": k, "v": v}
        # The standard operator on [B, H, T, D], and the contributed one on [B, T, H·D], its own layout.
        side_by_side = {name: numpy.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(batch, length, heads * dim)
                        for name, x in rows.items()}
        causal = row["mask"] == "causal"
        return [self.bound(onnx_model.attention(q.shape, causal), rows, q.shape),
                self.bound(onnx_model.multi_head_attention(side_by_side["q"].shape, heads, causal), side_by_side,
                           side_by_side["q"].shape)]

    def layer(self, row, normal):
        """The contributed Attention, which makes q, k and v itself, and the output projection."""
        import onnx_model
        plain = row["kind"] == "forward" and row["mask"] in ("dense", "causal") and "option" not in row
        if not plain or row["heads"] != row["kv_heads"]:
            return []
        width, inner = row["width"], row["heads"] * row["dim"]
        weights = {"w_in": normal(width, 3 * inner) / width**0.5, "b_in": normal(3 * inner),
                   "w_out": normal(inner, width) / width**0.5, "b_out": normal(width)}
        shape = (row["batch"], row["t_q"], width)
        model = onnx_model.layer(shape, weights, row["heads"], row["mask"] == "causal")
        return [self.bound(model, {"x": normal(*shape)}, shape)]


def answer(harness, peer, row):
    calls = peer.calls(row)
    if not calls:
        return {}
    if row["kind"] == "train":
        return {"milliseconds": min(harness.milliseconds(call, row) for call in calls)}
    return {"of_peak": max(harness.share_of_peak(call, row) for call in calls)}


def main():
    name, threads, heed, isa = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    peer = {"torch": Torch, "onnxruntime": OnnxRuntime}[name](threads)
    harness = Harness(heed, isa, threads)
    print(json.dumps({"version": peer.version}), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(harness, peer, json.loads(line))), flush=True)


main()
