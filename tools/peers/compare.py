"""Runs the rows of `heed bench` here and in the peers, in alternation, and prints one table.

Started by tools/peers/compare. Each round of a row measures Heed, then PyTorch, then ONNX Runtime, on the same cores
with the same number of threads. Shares are of the multiply-add peak that `heed bench probe` finds around each
repetition, for all of them. Rows of training are in whole steps per second, on one thread and on all cores.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PEERS = {"torch": "PyTorch", "onnxruntime": "ONNX Runtime"}
USAGE_ERROR = 2  # exit code of `heed` where it does not know a command
REPETITIONS = 7
TRAINING_REPETITIONS = 3  # of whole steps, which take up to seconds each


def parse_arguments():
    parser = argparse.ArgumentParser(prog="tools/peers/compare", description=__doc__.splitlines()[0])
    parser.add_argument("--heed", default=HERE.parent.parent / "build" / "heed", type=Path, help="the binary to measure")
    parser.add_argument("--isa", choices=["avx512", "avx2"],
                        help="hold Heed and PyTorch to this instruction set (ONNX Runtime cannot be held)")
    parser.add_argument("--rows", default="", metavar="TEXT", help="only rows with this text in their name")
    parser.add_argument("--rounds", type=int, help="rounds of each row (default 3; 1 with --quick)")
    parser.add_argument("--quick", action="store_true", help="one round, and no rows that take long")
    parser.add_argument("--markdown", action="store_true", help="print the table in Markdown, as for docs/benchmarks.md")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    if not os.access(arguments.heed, os.X_OK):
        parser.error(f"no binary at {arguments.heed}; build it with `make run`, or give --heed")
    if arguments.rounds is None:
        arguments.rounds = 1 if arguments.quick else 3
    if arguments.rounds < 1:
        parser.error(f"--rounds is {arguments.rounds}; give 1 or more")
    return arguments


def cores_for(threads):
    """The cores of a row: the first ones that this process may run on."""
    return set(sorted(os.sched_getaffinity(0))[:threads])


def heed_rows(arguments):
    """The rows to measure: command of `heed bench`, name, threads."""
    cores = len(os.sched_getaffinity(0))
    rows = []
    for command in ("attention", "decode", "matmul", "train"):
        listing = [str(arguments.heed), "bench", command, "--list"] + ["--quick"] * arguments.quick
        done = subprocess.run(listing, text=True, capture_output=True)
        if command == "train" and done.returncode == USAGE_ERROR:
            print(f"compare: {arguments.heed} has no `heed bench train`; its rows are left out", file=sys.stderr)
            continue
        if done.returncode != 0:
            sys.exit(f"compare: error: {' '.join(listing)} failed:\n{done.stderr}")
        for group, name in (line.split() for line in done.stdout.splitlines()):
            if arguments.rows not in title_of(command, name) or group in ("memory", "length"):
                continue
            if command == "train":
                rows += [(command, name, threads) for threads in sorted({1, cores})]
            elif is_compared(command, name):
                rows.append((command, name, cores if name.endswith("-threads") else 1))
    return rows


def title_of(command, name):
    """What the table calls a row. The names of training are those of its models."""
    return f"train-{name}" if command == "train" else name


def is_compared(command, name):
    if command == "attention":
        return True
    if command == "decode":
        return "-b16" not in name  # the peers have no batch of several lengths
    if "-bf16" in name:
        return False  # the peers would round the rows too
    # Where b is not packed before, ONNX Runtime has it as an input. Few rows would measure nothing but the packing.
    skinny = any(shape in name for shape in ("-64x", "-4x", "-1x"))
    return "-packed" in name or not skinny


def measure_heed(arguments, command, name, threads):
    repetitions = TRAINING_REPETITIONS if command == "train" else REPETITIONS
    line = [str(arguments.heed), "bench", command, "--json", "--case", name, "--repetitions", str(repetitions)]
    if arguments.isa:
        line += ["--isa", arguments.isa]
    if command == "train" or name.endswith("-threads"):
        line += ["--threads", str(threads)]
    cores = cores_for(threads)
    done = subprocess.run(line, text=True, capture_output=True, preexec_fn=lambda: os.sched_setaffinity(0, cores))
    if done.returncode != 0:
        sys.exit(f"compare: error: {' '.join(line)} failed:\n{done.stderr}")
    return json.loads(done.stdout)["rows"][0]


def speed_of(measured, command):
    """The share of the peak, of training steps per second; None where a peer could not do the row."""
    if not measured:
        return None
    return 1e3 / measured["milliseconds"] if command == "train" else measured["of_peak"]


class Peer:
    """A worker process that measures rows in one peer with one number of threads."""

    def __init__(self, name, threads, arguments):
        environment = dict(os.environ)
        if arguments.isa == "avx2":
            environment.update(ATEN_CPU_CAPABILITY="avx2", MKL_ENABLE_INSTRUCTIONS="AVX2", ONEDNN_MAX_CPU_ISA="AVX2")
        line = [sys.executable, str(HERE / "peer.py"), name, str(threads), str(arguments.heed), arguments.isa or ""]
        cores = cores_for(threads)
        self.process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
                                        preexec_fn=lambda: os.sched_setaffinity(0, cores))
        self.version = self.read()["version"]

    def read(self):
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit("compare: error: a peer ended early; its message is above")
        return json.loads(answer)

    def measure(self, row):
        """{"of_peak": …}, of training {"milliseconds": …}; {} where the peer cannot do the row."""
        print(json.dumps(row), file=self.process.stdin, flush=True)
        return self.read()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def compare_row(arguments, peers, command, name, threads):
    """One line of the table: medians over the rounds."""
    speeds = {"heed": []} | {peer: [] for peer in PEERS}
    for _ in range(arguments.rounds):
        row = measure_heed(arguments, command, name, threads)
        speeds["heed"].append(speed_of(row, command))
        for peer in PEERS:
            if arguments.isa == "avx2" and peer == "onnxruntime":
                continue
            if (peer, threads) not in peers:
                peers[peer, threads] = Peer(peer, threads, arguments)
            speed = speed_of(peers[peer, threads].measure(row), command)
            if speed is not None:
                speeds[peer].append(speed)
    line = {"name": title_of(command, name), "threads": threads, "isa": row["isa"],
            "unit": "steps/s" if command == "train" else "of_peak", "heed": statistics.median(speeds["heed"])}
    for peer in PEERS:
        if speeds[peer]:
            line[peer] = statistics.median(speeds[peer])
            line["of_" + peer] = statistics.median(ours / theirs for ours, theirs in zip(speeds["heed"], speeds[peer]))
    return line


def cells_of(line):
    """The texts of a line: shares in percent or steps per second, ratios."""
    def speed(key):
        if key not in line:
            return ""
        return f"{line[key]:.2f} /s" if line["unit"] == "steps/s" else f"{100 * line[key]:.0f} %"

    ratio = lambda key: f"{line[key]:.2f}" if key in line else ""
    return [line["name"], str(line["threads"]), speed("heed"), speed("torch"), speed("onnxruntime"),
            ratio("of_torch"), ratio("of_onnxruntime")]


HEADER = ["row", "threads", "Heed", "PyTorch", "ONNX Runtime", "Heed / PyTorch", "Heed / ONNX Runtime"]


class Table:
    """Lines as they are known, in plain text or in Markdown, as for docs/benchmarks.md."""

    def __init__(self, markdown):
        self.markdown = markdown
        self.widths = [40] + [max(len(title), 8) for title in HEADER[1:]]
        self.write(HEADER)
        if markdown:
            print("|---" + "|--:" * (len(HEADER) - 1) + "|")

    def write(self, cells):
        if self.markdown:
            print("| " + " | ".join(cells) + " |", flush=True)
            return
        padded = [cells[0].ljust(self.widths[0])] + [c.rjust(w) for c, w in zip(cells[1:], self.widths[1:])]
        print("  ".join(padded), flush=True)


def cpu_name():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def summary(lines):
    texts = []
    for peer, title in PEERS.items():
        ratios = [line["of_" + peer] for line in lines if "of_" + peer in line]
        if ratios:
            behind = [line["name"] for line in lines if line.get("of_" + peer, 1) < 1]
            texts.append(f"Heed / {title}: geometric mean {geometric_mean(ratios):.2f} over {len(ratios)} rows, "
                         + (f"behind in {', '.join(behind)}" if behind else "ahead in every row"))
    return texts


def main():
    arguments = parse_arguments()
    rows = heed_rows(arguments)
    if not rows:
        sys.exit(f"compare: error: no row has '{arguments.rows}' in its name")
    table = None if arguments.json else Table(arguments.markdown)
    peers, lines = {}, []
    for index, row in enumerate(rows):
        print(f"compare: {index + 1} of {len(rows)}: {title_of(*row[:2])}", file=sys.stderr)
        lines.append(compare_row(arguments, peers, *row))
        if table:
            table.write(cells_of(lines[-1]))
    for worker in peers.values():
        worker.close()
    versions = {peer: worker.version for (peer, _), worker in peers.items()}
    if arguments.json:
        print(json.dumps({"schema": "heed/peers@1", "cpu": cpu_name(), "versions": versions, "rows": lines}, indent=1))
        return
    print()
    print("\n".join(summary(lines)))
    print(f"% of the multiply-add peak, /s training steps per second; f32, {lines[0]['isa']}. {cpu_name()}; "
          + ", ".join(f"{PEERS[peer]} {version}" for peer, version in versions.items()))


main()
