"""Measures the error of Heed's f32 attention and of PyTorch's against float64, on the same inputs.

Started by tools/exactness/measure. The error of a head is the largest difference from float64 within the head, divided
by the head's largest value in float64, for out, d_q, d_k and d_v. The goal: Heed's 99th percentile is at most 1.1 times
PyTorch's in every cell. Exits with 1 where a cell misses it.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import cells
import reference
import table
from contender import Contender

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
QUICK_HEADS = 100
# What holds PyTorch to an instruction set.
PYTORCH = {
    "avx512": {},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    "baseline": {"ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "ONEDNN_MAX_CPU_ISA": "SSE41"},
}


def parse_arguments():
    parser = argparse.ArgumentParser(prog="tools/exactness/measure", description=__doc__.splitlines()[0],
                                     epilog="Cells are described in tools/exactness/cells.py.")
    parser.add_argument("--heed-build", type=Path, default=os.environ.get("HEED_BUILD", ROOT / "build"), metavar="DIR",
                        help="the build folder of the Heed to measure (default: HEED_BUILD, else build/)")
    parser.add_argument("--isa", choices=list(PYTORCH), help="hold Heed and PyTorch to this instruction set")
    parser.add_argument("--rows", action="append", metavar="TEXT",
                        help="only cells with this text in their name; may be given several times")
    parser.add_argument("--quick", action="store_true", help=f"at most {QUICK_HEADS} heads a cell")
    parser.add_argument("--list", action="store_true", help="print the names of the cells and do nothing else")
    parser.add_argument("--write", nargs="?", type=Path, const=ROOT / "docs" / "exactness.md", metavar="FILE",
                        help="put the table between the markers of FILE too (default docs/exactness.md)")
    parser.add_argument("--report-only", action="store_true", help="exit with 0 also where a cell misses the goal")
    arguments = parser.parse_args()
    if arguments.write and (arguments.rows or arguments.quick):
        parser.error("--write wants the whole table; leave out --rows and --quick")
    return arguments


def build(folder):
    """Heed's program, built in a folder that is configured here where it is this repository's own."""
    if not (folder / "CMakeCache.txt").exists() and folder == ROOT / "build":
        subprocess.run(["cmake", "--preset", "release"], cwd=ROOT, check=True, stdout=sys.stderr)
    done = subprocess.run(["cmake", "--build", folder, "--target", "heed_exactness"], stdout=sys.stderr)
    if done.returncode != 0:
        sys.exit(f"measure: error: no heed_exactness could be built in {folder}")
    return folder / "tools" / "exactness" / "heed_exactness"


def measure(cell, heads, contenders):
    """The lines of a cell."""
    found = [{name: [] for name in cell.tensors} for _ in contenders]
    for first, count in cell.chunks():
        if first >= heads:
            break
        inputs = cell.make(first, count)
        inputs = [tensor[:heads - first] for tensor in inputs]
        answers = [contender.compute(inputs, cell) for contender in contenders]
        for so_far, errors in zip(found, reference.errors(inputs, answers, cell)):
            for name in cell.tensors:
                so_far[name] += errors[name]
    return [table.Line(cell.name, name, found[0][name], found[1][name]) for name in cell.tensors]


def cpu_name():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return "unknown CPU"


def summary(lines):
    missed = [line for line in lines if line.misses()]
    worst = max(lines, key=table.Line.ratio)
    return (f"{len(lines) - len(missed)} of {len(lines)} lines meet the goal of {table.GOAL}; the largest ratio is "
            f"{worst.ratio():.2f} ({worst.cell}, {worst.tensor}).")


def main():
    arguments = parse_arguments()
    chosen = [cell for cell in cells.all_cells() if any(text in cell.name for text in arguments.rows or [""])]
    if not chosen:
        sys.exit(f"measure: error: no cell has {' or '.join(arguments.rows)} in its name; --list prints them")
    if arguments.list:
        print("\n".join(cell.name for cell in chosen))
        return
    heed = Contender([build(arguments.heed_build.resolve())] + [arguments.isa] * bool(arguments.isa))
    pytorch = Contender([sys.executable, HERE / "torch_rows.py"], os.environ | PYTORCH[heed.says])
    lines, begin = [], time.monotonic()
    interrupted = False
    try:
        for cell in chosen:
            heads = min(cell.heads, QUICK_HEADS) if arguments.quick else cell.heads
            lines += measure(cell, heads, (heed, pytorch))
            ratios = "  ".join(f"{line.tensor} {line.ratio():.2f}" for line in lines if line.cell == cell.name)
            print(f"measure: {time.monotonic() - begin:5.0f} s  {cell.name}: {ratios}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        interrupted = True
        for contender in (heed, pytorch):
            contender.process.kill()  # it may wait for the rest of its input, or to be read
        print("measure: interrupted; what was measured follows, and no file is written", file=sys.stderr)
        if not lines:
            sys.exit(130)
    text = f"{cpu_name()}, Heed with {heed.says}, PyTorch {pytorch.says}. {summary(lines)}\n\n{table.markdown(lines)}"
    print(text, end="")
    if interrupted:
        sys.exit(130)
    if arguments.write:
        table.write_between_markers(arguments.write, f"errors with {heed.says}", text)
    if any(line.misses() for line in lines) and not arguments.report_only:
        sys.exit(1)


main()
