"""The training steps of `heed bench train` in PyTorch, in the form that is fastest there without compiling the model:
fused attention, fused AdamW, one projection for q, k and v, gradients dropped instead of zeroed.
"""

import torch
from torch import nn
from torch.nn.functional import cross_entropy, gelu, linear, scaled_dot_product_attention

MOST_NORM = 1.0


class Block(nn.Module):
    """A pre-norm layer: self attention and a feed-forward of 4 times the width with exact GELU."""

    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.linear1, self.linear2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).chunk(3, -1))
        heads = scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(heads.transpose(1, 2).flatten(-2))
        return x + self.linear2(gelu(self.linear1(self.norm2(x))))


class Stack(nn.Module):
    """Tokens [B, T], with learned positions, through blocks: [B, T, width]."""

    def __init__(self, vocabulary, length, width, heads, layers, causal):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads, causal) for _ in range(layers)))

    def forward(self, ids):
        return self.blocks(self.words(ids) + self.positions.weight[: ids.shape[1]])


class Encoder(nn.Module):
    """A classifier of texts: the mean over the tokens, then one map to 2 classes."""

    def __init__(self, batch, length, width, heads, layers, vocabulary):
        super().__init__()
        self.stack = Stack(vocabulary, length, width, heads, layers, causal=False)
        self.classes = nn.Linear(width, 2)
        self.ids, self.labels = torch.randint(vocabulary, (batch, length)), torch.randint(2, (batch,))

    def loss(self):
        return cross_entropy(self.classes(self.stack(self.ids).mean(1)), self.labels)


class Gpt(nn.Module):
    """A language model like nanoGPT's: a final norm, and the embedding once more as output map."""

    def __init__(self, batch, length, width, heads, layers, vocabulary):
        super().__init__()
        self.stack = Stack(vocabulary, length, width, heads, layers, causal=True)
        self.norm = nn.LayerNorm(width)
        # The embedding is an output map too: of std 1, as nn.Embedding has it, the first logits would be huge.
        nn.init.normal_(self.stack.words.weight, std=0.02)
        self.ids, self.labels = (torch.randint(vocabulary, (batch, length)) for _ in range(2))

    def loss(self):
        logits = linear(self.norm(self.stack(self.ids)), self.stack.words.weight)
        return cross_entropy(logits.flatten(0, 1), self.labels.flatten())


class Seq2Seq(nn.Module):
    """A translator: nn.Transformer between one embedding for both sides and an output map of its own."""

    def __init__(self, batch, length, width, heads, layers, vocabulary):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.transformer = nn.Transformer(width, heads, layers, layers, 4 * width, dropout=0.0, batch_first=True)
        self.output = nn.Linear(width, vocabulary)
        self.source, self.target, self.labels = (torch.randint(vocabulary, (batch, length)) for _ in range(3))
        self.mask = nn.Transformer.generate_square_subsequent_mask(length)

    def loss(self):
        # Told that the mask is causal, it takes the fused kernel's own and not the tensor.
        x = self.transformer(self.words(self.source), self.words(self.target), tgt_mask=self.mask, tgt_is_causal=True)
        return cross_entropy(self.output(x).flatten(0, 1), self.labels.flatten())


CASES = {
    "encoder": (Encoder, {"batch": 32, "length": 256, "width": 128, "heads": 4, "layers": 4, "vocabulary": 20000}),
    "gpt-tiny": (Gpt, {"batch": 12, "length": 64, "width": 128, "heads": 4, "layers": 4, "vocabulary": 65}),
    "gpt-small": (Gpt, {"batch": 16, "length": 256, "width": 384, "heads": 6, "layers": 6, "vocabulary": 65}),
    "seq2seq": (Seq2Seq, {"batch": 64, "length": 24, "width": 256, "heads": 8, "layers": 3, "vocabulary": 8000}),
}


def training_step(case):
    """A call that does one whole step on a batch of random tokens, the same in each step."""
    torch.manual_seed(1)
    make, sizes = CASES[case]
    model = make(**sizes)
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.01, fused=True)

    def step():
        loss = model.loss()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, MOST_NORM)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    return step
