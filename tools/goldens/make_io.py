#!/usr/bin/env python3
"""Writes tests/golden/io: small files by numpy and safetensors, and expected.txt with the values they must read as.

    python3 -m pip install torch numpy safetensors      # any version from 2.5, 1.23 and 0.4 on
    tools/goldens/make_io.py tests/golden/io

Each npy file is a case; so is each tensor of weights.safetensors, as weights.safetensors:NAME. The values are those of
the array as float32; the format of expected.txt is described in tests/support/golden.h.
"""

import argparse
import pathlib

import numpy
import safetensors.torch
import torch

from make_attention import write_tensor

SPECIAL = (0.0, -0.0, 1.5, -0.1, numpy.inf, -numpy.inf, numpy.nan)
HALF = SPECIAL + (65504.0, 2.0**-24, 2.0**-14, -3.0 * 2.0**-20)
LIMITS = {1: 127, 2: 32767, 4: 2**24, 8: 2**40}  # the largest whole numbers of each width that float32 holds, or nearly


def whole(kind, width):
    largest = LIMITS[width]
    least = -largest if kind == "i" else 0
    return numpy.array([0, 1, 7, largest, least, 100], dtype=f"<{kind}{width}")


def npy_arrays():
    """Name, array and version of each npy file."""
    counting = numpy.arange(24, dtype="<f4")
    files = {
        "f16": (numpy.array(HALF, dtype="<f2"), (1, 0)),
        "f32": (numpy.array(SPECIAL + (3.4028235e38, 1e-45), dtype="<f4").reshape(3, 3), (1, 0)),
        "f64": (numpy.array(SPECIAL + (0.1, 1e300**0.1, 3.4028235677973366e38 * (1 - 1e-9)), dtype="<f8"), (1, 0)),
        "bool": (numpy.array([[True, False, True], [False, False, True]]), (1, 0)),
        "fortran2": (numpy.asfortranarray(counting[:6].reshape(2, 3)), (1, 0)),
        "fortran3": (numpy.asfortranarray(counting.reshape(2, 3, 4)), (1, 0)),
        "fortran_f64": (numpy.asfortranarray(counting.astype("<f8").reshape(4, 3, 2) / 3), (2, 0)),
        "rank0": (numpy.array(2.5, dtype="<f4"), (1, 0)),
        "rank4": (counting.reshape(1, 2, 3, 4), (1, 0)),
        "no_elements": (numpy.zeros((0, 3), dtype="<f4"), (1, 0)),
        "version2": (counting[:4].reshape(2, 2), (2, 0)),
        "version3": (counting[:4].reshape(4, 1), (3, 0)),
    }
    for kind in "iu":
        for width in (1, 2, 4, 8):
            files[f"{kind}{8 * width}"] = (whole(kind, width), (1, 0))
    return files


def safetensors_tensors():
    counting = torch.arange(12).reshape(3, 4)
    return {
        "f16": torch.tensor(HALF, dtype=torch.float16),
        "bf16": torch.tensor(SPECIAL + (3.3895e38,), dtype=torch.bfloat16),
        "f32": torch.tensor(SPECIAL, dtype=torch.float32),
        "f64": torch.tensor(SPECIAL + (1 / 3,), dtype=torch.float64),
        "bool": counting % 3 == 0,
        "i8": (counting - 5).to(torch.int8),
        "i16": (counting * -2700).to(torch.int16),
        "i32": (counting * 1000).to(torch.int32),
        "i64": counting * 2**40,
        "u8": (counting * 20).to(torch.uint8),
        "self_attn.in_proj_weight": (counting / 16).to(torch.float32),
        "rank0": torch.tensor(-7.0),
        "no_elements": torch.zeros(2, 0, 3),
        "größe×": torch.ones(1, 1),
    }


def write_case(file, name, dtype, values):
    values = values.to(torch.float32)
    file.write(f"case {name}\n")
    file.write(f"text dtype {dtype}\n")
    file.write(f"text nonfinite {(~values.isfinite()).sum().item()}\n")
    write_tensor(file, "values", values)


NAMES = {"|b1": "bool", "torch.bool": "bool", "torch.float16": "f16", "torch.bfloat16": "bf16", "torch.float32": "f32",
         "torch.float64": "f64", "torch.int8": "i8", "torch.int16": "i16", "torch.int32": "i32", "torch.int64": "i64",
         "torch.uint8": "u8"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    directory = parser.parse_args().directory
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "expected.txt", "w", encoding="utf-8") as file:
        file.write("# What the files beside this one hold, as float32. Made by tools/goldens/make_io.py.\n")
        for name, (array, version) in npy_arrays().items():
            with open(directory / f"{name}.npy", "wb") as npy:
                numpy.lib.format.write_array(npy, array, version=version)
            dtype = NAMES.get(array.dtype.str, f"{array.dtype.kind}{8 * array.dtype.itemsize}")
            write_case(file, f"{name}.npy", dtype, torch.from_numpy(array.astype("<f4", order="C")))
        tensors = safetensors_tensors()
        safetensors.torch.save_file(tensors, directory / "weights.safetensors", {"made by": "tools/goldens", "π": "3"})
        for name, tensor in tensors.items():
            write_case(file, f"weights.safetensors:{name}", NAMES[str(tensor.dtype)], tensor)


if __name__ == "__main__":
    main()
