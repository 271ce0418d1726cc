"""The errors of all cells as a Markdown table, and its place in a document."""

import math
from dataclasses import dataclass

GOAL = 1.1
ROUNDING = 2.0**-24  # what rounding the largest value of a head to f32 may cost; below it nobody is behind
HEADER = ["cell", "tensor", "heads"] + [f"{who} {what}" for who in ("Heed", "PyTorch") for what in ("median", "99 %", "max")]


def quantile(values, share):
    """The least value that this share of all values does not exceed."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


@dataclass(frozen=True)
class Line:
    cell: str
    tensor: str
    heed: list  # the error of each head
    torch: list

    def ratio(self):
        """Of the 99th percentiles; infinite where PyTorch's is 0 and Heed's is not."""
        ours, theirs = quantile(self.heed, 0.99), quantile(self.torch, 0.99)
        return ours / theirs if theirs > 0 else math.inf if ours > 0 else 1.0

    def misses(self):
        return not quantile(self.heed, 0.99) <= GOAL * max(quantile(self.torch, 0.99), ROUNDING)

    def texts(self):
        errors = [number(value) for side in (self.heed, self.torch)
                  for value in (quantile(side, 0.5), quantile(side, 0.99), max(side))]
        ratio = f"{self.ratio():.2f}" if self.ratio() < 100 else f"{self.ratio():.0f}"
        return [self.cell, self.tensor, str(len(self.heed)), *errors, f"**{ratio}**" if self.misses() else ratio]


def number(value):
    """1.23e-7, without zeros in front of the exponent."""
    if value == 0 or math.isinf(value):
        return f"{value:.0f}"
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def markdown(lines):
    rows = [HEADER + ["ratio"], ["---", "---"] + ["--:"] * (len(HEADER) - 1)] + [line.texts() for line in lines]
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def write_between_markers(path, name, text):
    """Replaces what stands between the document's markers for `name`."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    document = path.read_text()
    before, found, rest = document.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise ValueError(f"{path} has no lines {begin.strip()!r} and {end.strip()!r}")
    path.write_text(before + begin + text + end + after)
