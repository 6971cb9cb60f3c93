"""A transformer with random weights that labels each of its steps.

It serves (prefill and decode, kernel by kernel or by CUDA graphs) or trains, alone or as one rank of NCCL, and writes a
JSON line for every step: its phase, and CLOCK_MONOTONIC right around it. An agent that
traces it is compared with that. It has the protocol of the player: it prints `ready` with its libraries mapped, waits for a line, says `done`, and
waits for the end of its input.

    python3 transformer.py --mode eager|graphs|train|collective --steps 300 --labels labels.jsonl
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY = 8192
WIDTH = 1024
HEADS = 16
LAYERS = 12
LENGTH = 1024
# Prompts, and how many sequences are decoded at once, by the step's number.
PROMPTS = (256, 384, 512, 768)
BATCHES = (4, 8)
# Decodes between two prefills.
DECODES = 12


class Block(nn.Module):
    """Attention over a cache of fixed size, so that a graph of it can be replayed, and a feed-forward layer."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH) for _ in range(2)])
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, cache, places, mask, after):
        batch, length, _ = x.shape
        heads = self.qkv(self.norms[0](x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        if cache is not None:
            keys, values = cache
            k = keys[:batch].index_copy_(2, places, k)
            v = values[:batch].index_copy_(2, places, v)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        x = x + after(self.out(attended.transpose(1, 2).reshape(batch, length, WIDTH)))
        return x + after(self.down(F.gelu(self.up(self.norms[1](x)))))


class Transformer(nn.Module):
    """`after` is what a tensor-parallel layer would do with its output: nothing, or an all-reduce."""

    def __init__(self, after=lambda x: x):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.after = after

    def forward(self, tokens, caches=None, places=None, mask=None):
        x = self.embedding(tokens)
        for number, block in enumerate(self.blocks):
            x = block(x, caches and caches[number], places, mask, self.after)
        return self.head(x)


class Labels:
    """The lines."""

    def __init__(self, path):
        self.file = open(path, "w", encoding="utf-8")

    @contextlib.contextmanager
    def step(self, phase):
        start = time.monotonic_ns()
        yield
        line = {"phase": phase, "start_ns": start, "end_ns": time.monotonic_ns()}
        self.file.write(json.dumps(line) + "\n")


class Server:
    """Prefills and decodes, one after the other, as an engine's loop does."""

    def __init__(self, device, by_graphs, after=lambda x: x):
        self.device, self.by_graphs = device, by_graphs
        self.model = Transformer(after).to(device, self.dtype()).eval()
        shape = (max(BATCHES), HEADS, LENGTH, WIDTH // HEADS)
        cache = lambda: torch.zeros(shape, device=device, dtype=self.dtype())
        self.caches = [(cache(), cache()) for _ in range(LAYERS)]
        self.place = torch.zeros(1, device=device, dtype=torch.long)
        self.range = torch.arange(LENGTH, device=device)
        self.inputs = {b: torch.zeros(b, 1, device=device, dtype=torch.long) for b in BATCHES}
        self.graphs = {}

    def dtype(self):
        return torch.bfloat16 if self.device == "cuda" else torch.float32

    def forward(self, batch):
        """One token for each sequence, from the inputs that lie in place."""
        mask = (self.range <= self.place).view(1, 1, 1, LENGTH)
        return self.model(self.inputs[batch], self.caches, self.place, mask)[:, -1].argmax(-1)

    def capture(self):
        for batch in BATCHES:
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                for _ in range(3):
                    self.forward(batch)
            side.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = self.forward(batch)
            self.graphs[batch] = (graph, out)

    def prefill(self, tokens):
        tokens = tokens.to(self.device, non_blocking=True)
        places = self.range[: tokens.shape[1]]
        return self.model(tokens, self.caches, places, mask_of(places, self.range))[:, -1].argmax(-1).cpu()

    def decode(self, tokens, place):
        batch = tokens.shape[0]
        self.inputs[batch].copy_(tokens, non_blocking=True)
        self.place.fill_(place)
        if self.by_graphs:
            graph, out = self.graphs[batch]
            graph.replay()
            return out.cpu()
        return self.forward(batch).cpu()

    @torch.inference_mode()
    def run(self, steps, labels):
        if self.by_graphs:
            self.capture()
        for number in range(steps):
            turn = number // (DECODES + 1)
            batch, prompt = BATCHES[turn % len(BATCHES)], PROMPTS[turn % len(PROMPTS)]
            if number % (DECODES + 1) == 0:
                tokens = torch.randint(VOCABULARY, (1, prompt))
                with labels.step("prefill"):
                    self.prefill(tokens)
            else:
                tokens = torch.randint(VOCABULARY, (batch, 1))
                with labels.step("decode"):
                    self.decode(tokens, prompt + number % (DECODES + 1))


def mask_of(places, all_places):
    return (all_places.view(1, -1) <= places.view(-1, 1)).view(1, 1, len(places), -1)


class Trainer:
    """Forward, backward and optimizer on random tokens; the loss is read at the end of each step."""

    def __init__(self, device):
        self.device = device
        self.model = Transformer().to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)

    def run(self, steps, labels):
        for _ in range(steps):
            tokens = torch.randint(VOCABULARY, (4, 129))
            with labels.step("train"):
                tokens = tokens.to(self.device, non_blocking=True)
                logits = self.model(tokens[:, :-1])
                loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
                loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad()
                loss.item()


def one_rank():
    """A job of one rank, which meets itself in a file: no port is taken."""
    meeting = os.path.join(tempfile.mkdtemp(), "meeting")
    torch.distributed.init_process_group("nccl", f"file://{meeting}", rank=0, world_size=1)

    def reduce(x):
        torch.distributed.all_reduce(x)
        return x

    reduce(torch.zeros(1, device="cuda"))
    return reduce


def say(line):
    print(f"@player {line}", flush=True)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--mode", choices=("eager", "graphs", "train", "collective"), required=True)
    arguments.add_argument("--steps", type=int, default=300)
    arguments.add_argument("--labels", required=True)
    arguments = arguments.parse_args()
    torch.manual_seed(7)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if arguments.mode == "train":
        program = Trainer(device)
    else:
        after = one_rank() if arguments.mode == "collective" else lambda x: x
        program = Server(device, arguments.mode == "graphs", after)
    if device == "cuda":
        torch.cuda.synchronize()
    labels = Labels(arguments.labels)
    say(f"ready {os.getpid()}")
    if not sys.stdin.readline():
        return
    program.run(arguments.steps, labels)
    labels.file.close()
    say(f"done {arguments.steps}")
    sys.stdin.read()


if __name__ == "__main__":
    main()
