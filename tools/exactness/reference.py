"""Attention and its gradients in float64, a block of queries at a time."""

import torch

BLOCK = 2**19  # scores of a block
LEAST_ROWS = 16


def blocks(count, step):
    return [slice(begin, min(begin + step, count)) for begin in range(0, count, step)]


def attention(q, k, v, d_out, causal):
    """out, d_q, d_k, d_v by name, float64; q and d_out are [heads, Tq, D], k and v [heads, Tk, D]."""
    k, v = k.double(), v.double()
    scale = q.shape[-1] ** -0.5
    out, d_q = torch.empty(q.shape, dtype=torch.float64), torch.empty(q.shape, dtype=torch.float64)
    d_k, d_v = torch.zeros_like(k), torch.zeros_like(v)
    t_k = k.shape[1]
    for rows in blocks(q.shape[1], max(LEAST_ROWS, BLOCK // t_k)):
        seen = slice(0, min(rows.stop, t_k) if causal else t_k)
        q_rows, d_rows = q[:, rows].double() * scale, d_out[:, rows].double()
        weights = q_rows @ k[:, seen].transpose(1, 2)
        if causal:
            positions = torch.arange(rows.start, rows.stop)[:, None]
            weights.masked_fill_(torch.arange(seen.stop)[None, :] > positions, float("-inf"))
        # Weights stay as they are before the division by their sum; out and d_out are divided, which are smaller.
        weights.sub_(weights.amax(-1, keepdim=True)).exp_()
        sums = weights.sum(-1, keepdim=True)
        out[:, rows] = (weights @ v[:, seen]).div_(sums)
        d_rows.div_(sums)
        d_v[:, seen] += weights.transpose(1, 2) @ d_rows
        d_scores = d_rows @ v[:, seen].transpose(1, 2)
        d_scores.sub_((d_rows * out[:, rows]).sum(-1, keepdim=True)).mul_(weights)
        d_q[:, rows] = (d_scores @ k[:, seen]) * scale
        d_k[:, seen] += d_scores.transpose(1, 2) @ q_rows
    return {"out": out, "d_q": d_q, "d_k": d_k, "d_v": d_v}


def errors(inputs, answers, cell):
    """For each answer ({tensor: values}) and tensor: the largest error of each head, of the head's largest value."""
    found = [{name: [] for name in cell.tensors} for _ in answers]
    # The query heads of a group read the same keys, so to the reference they are more queries.
    flat = lambda tensor: tensor.flatten(1, 2)
    rows = min(cell.group * cell.t_q, max(LEAST_ROWS, BLOCK // cell.t_k))
    for heads in blocks(inputs[0].shape[0], max(1, BLOCK // (rows * cell.t_k))):
        exact = attention(*(flat(tensor[heads]) for tensor in inputs), cell.causal)
        for answer, lists in zip(answers, found):
            for name, values in lists.items():
                difference = (flat(answer[name][heads]).double() - exact[name]).abs().amax((1, 2))
                relative = difference / exact[name].abs().amax((1, 2))
                values += relative.nan_to_num(nan=float("inf")).tolist()
    return found
