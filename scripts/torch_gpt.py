"""The GPTs that bench_torch.py times, in PyTorch."""

import collections

# A model's sizes; of those on a GPU also the sequences of a microbatch and their length.
Size = collections.namedtuple("Size", "layers hidden heads positions vocab batch", defaults=[0])
GPT2 = Size(12, 768, 12, 1024, 50257)
GPU_MODELS = {
    "gpt2-124m": GPT2._replace(batch=64),
    "gpt2-1.5b": Size(48, 1600, 25, 1024, 50257, 32),
    "gpt3-6.7b": Size(32, 4096, 32, 2048, 50257, 4),
    "tiny": Size(2, 128, 2, 128, 1009, 2),  # tries this program itself
}


def build_model(torch, size, stream_dtype=None, checkpoint=None):
    """GPT-2: learned positions, LayerNorm, tanh-GELU, biases, head tied to the embedding.

    `stream_dtype` is that of the residual stream where it is not the embedding's; `checkpoint` runs
    a block on its input.
    """
    nn, functional = torch.nn, torch.nn.functional
    hidden, heads = size.hidden, size.heads

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
            self.qkv = nn.Linear(hidden, 3 * hidden)
            self.attn_proj = nn.Linear(hidden, hidden)
            self.fc = nn.Linear(hidden, 4 * hidden)
            self.mlp_proj = nn.Linear(4 * hidden, hidden)

        def forward(self, x):
            batch, seq, _ = x.shape
            qkv = self.qkv(self.ln_1(x)).view(batch, seq, 3, heads, hidden // heads)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            o = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.attn_proj(o.transpose(1, 2).reshape(batch, seq, hidden))
            return x + self.mlp_proj(functional.gelu(self.fc(self.ln_2(x)), approximate="tanh"))

    class Gpt2(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(size.vocab, hidden), nn.Embedding(size.positions, hidden)
            self.blocks = nn.ModuleList(Block() for _ in range(size.layers))
            self.ln_f = nn.LayerNorm(hidden)
            self.apply(initialise)

        def embed(self, ids):
            x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
            return x if stream_dtype is None else x.to(stream_dtype)

        def loss(self, x, targets):
            logits = functional.linear(self.ln_f(x), self.wte.weight)
            return functional.cross_entropy(logits.view(-1, size.vocab), targets.view(-1))

        def forward(self, ids, targets):
            x = self.embed(ids)
            for block in self.blocks:
                x = block(x) if checkpoint is None else checkpoint(block, x)
            return self.loss(x, targets)

    def initialise(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    return Gpt2()
