"""Tiny GPT-2- and Llama-shaped models in plain PyTorch, for recording what FSDP does with them.

Each model is built from a dict with the field names of a Hugging Face ``config.json`` and has the same
parameters (names apart) as ``GPT2LMHeadModel`` / ``LlamaForCausalLM`` of that config.  Shapes follow
``torch.nn.Linear`` ([out, in]) also for GPT-2, whose Hugging Face Conv1D stores [in, out].

Module names are flat: ``embed_tokens``, ``layers.N``, ``norm``, ``lm_head`` (Llama); ``wte``, ``wpe``, ``layers.N``,
``ln_f``, ``lm_head`` (GPT-2).

Every piece of a model (embedding, each layer, final norm, head) brackets its work with two identity autograd nodes,
so that a recorder learns when its forward and its backward begin and end.  Set ``MARK`` to a
``callable(token: str, piece: str)`` to listen (without a listener the nodes are not there at all): tokens are ``fwd>``, ``fwd<``, ``bwd>``, ``bwd<``.  ``bwd>`` comes
after the pre-backward hook of a sharded module around the piece; ``bwd<`` comes when the gradient of the piece's
input is complete and before any hook that wraps the piece's input.  An embedding has no ``bwd<``: its input has
no gradient.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

MARK = None  # callable(token, piece) or None


class _Mark(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, forward_token, backward_token, piece):
        ctx.token, ctx.piece = backward_token, piece
        MARK(forward_token, piece)
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        MARK(ctx.token, ctx.piece)
        return grad, None, None, None


def _begin(x, piece):
    if MARK is None:
        return x
    if x.requires_grad:
        return _Mark.apply(x, "fwd>", "bwd<", piece)
    MARK("fwd>", piece)
    return x


def _end(x, piece):
    if MARK is None:
        return x
    return _Mark.apply(x, "fwd<", "bwd>", piece)


class RMSNorm(nn.Module):
    def __init__(self, d, eps, piece=None):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))
        self.eps, self.piece = eps, piece

    def forward(self, x):
        if self.piece:
            x = _begin(x, self.piece)
        dtype = x.dtype
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)
        y = self.weight * h.to(dtype)
        return _end(y, self.piece) if self.piece else y


class LayerNorm(nn.LayerNorm):
    def __init__(self, d, eps, piece=None):
        super().__init__(d, eps=eps)
        self.piece = piece

    def forward(self, x):
        if self.piece:
            x = _begin(x, self.piece)
        y = super().forward(x)
        return _end(y, self.piece) if self.piece else y


class Embedding(nn.Embedding):
    def __init__(self, n, d, piece):
        super().__init__(n, d)
        self.piece = piece

    def forward(self, ids):
        return _end(super().forward(_begin(ids, self.piece)), self.piece)


class Head(nn.Linear):
    def forward(self, x):
        return _end(super().forward(_begin(x, "lm_head")), "lm_head")


def attend(q, k, v, how):
    """Causal attention on [batch, heads, seq, head_dim]; how = "sdpa" or "eager" (as Hugging Face's eager path)."""
    if how == "sdpa":
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    t = q.shape[-2]
    scores = torch.matmul(q, k.transpose(2, 3)) * (q.shape[-1] ** -0.5)
    mask = torch.full((t, t), torch.finfo(q.dtype).min, dtype=q.dtype, device=q.device).triu(1)
    scores = scores + mask
    p = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
    return torch.matmul(p, v)


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class LlamaAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        d, h, kv = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"]
        self.h, self.kv, self.hd = h, kv, d // h
        self.how = c.get("_attention", "sdpa")
        self.theta = c["rope_theta"]
        self.q_proj = nn.Linear(d, h * self.hd, bias=False)
        self.k_proj = nn.Linear(d, kv * self.hd, bias=False)
        self.v_proj = nn.Linear(d, kv * self.hd, bias=False)
        self.o_proj = nn.Linear(h * self.hd, d, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        q = self.q_proj(x).view(b, t, self.h, self.hd).transpose(1, 2)
        k = self.k_proj(x).view(b, t, self.kv, self.hd).transpose(1, 2)
        v = self.v_proj(x).view(b, t, self.kv, self.hd).transpose(1, 2)
        inv = 1.0 / (self.theta ** (torch.arange(0, self.hd, 2, device=x.device).float() / self.hd))
        angle = torch.outer(torch.arange(t, device=x.device).float(), inv)
        angle = torch.cat((angle, angle), dim=-1)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        if self.kv != self.h:  # repeat_kv: expand + reshape, a copy
            r = self.h // self.kv
            k = k[:, :, None].expand(b, self.kv, r, t, self.hd).reshape(b, self.h, t, self.hd)
            v = v[:, :, None].expand(b, self.kv, r, t, self.hd).reshape(b, self.h, t, self.hd)
        o = attend(q, k, v, self.how)
        return self.o_proj(o.transpose(1, 2).reshape(b, t, -1))


class LlamaMLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        d, f = c["hidden_size"], c["intermediate_size"]
        self.gate_proj = nn.Linear(d, f, bias=False)
        self.up_proj = nn.Linear(d, f, bias=False)
        self.down_proj = nn.Linear(f, d, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaBlock(nn.Module):
    def __init__(self, c, piece):
        super().__init__()
        d, eps = c["hidden_size"], c["rms_norm_eps"]
        self.piece = piece
        self.input_layernorm = RMSNorm(d, eps)
        self.self_attn = LlamaAttention(c)
        self.post_attention_layernorm = RMSNorm(d, eps)
        self.mlp = LlamaMLP(c)

    def forward(self, x):
        x = _begin(x, self.piece)
        x = x + self.self_attn(self.input_layernorm(x))
        x = x + self.mlp(self.post_attention_layernorm(x))
        return _end(x, self.piece)


class Llama(nn.Module):
    block = LlamaBlock

    def __init__(self, c):
        super().__init__()
        d, v = c["hidden_size"], c["vocab_size"]
        self.embed_tokens = Embedding(v, d, "embed_tokens")
        self.layers = nn.ModuleList(LlamaBlock(c, f"layers.{i}") for i in range(c["num_hidden_layers"]))
        self.norm = RMSNorm(d, c["rms_norm_eps"], "norm")
        self.lm_head = Head(d, v, bias=False)
        if c["tie_word_embeddings"]:
            self.lm_head.weight = self.embed_tokens.weight

    def ends(self):
        """(modules before the layers, modules after them)"""
        return [self.embed_tokens], [self.norm, self.lm_head]

    def forward(self, ids):
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))


class GPT2Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        d = c["n_embd"]
        self.h = c["n_head"]
        self.how = c.get("_attention", "sdpa")
        self.c_attn = nn.Linear(d, 3 * d)
        self.c_proj = nn.Linear(d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.c_attn(x).split(d, dim=2)
        q, k, v = (z.view(b, t, self.h, d // self.h).transpose(1, 2) for z in (q, k, v))
        o = attend(q, k, v, self.how)
        return self.c_proj(o.transpose(1, 2).reshape(b, t, d))


class GPT2MLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        d = c["n_embd"]
        self.c_fc = nn.Linear(d, 4 * d)
        self.c_proj = nn.Linear(4 * d, d)
        self.gelu = c.get("_gelu", "fused")

    def forward(self, x):
        h = self.c_fc(x)
        if self.gelu == "fused":
            h = F.gelu(h, approximate="tanh")
        else:  # Hugging Face's "gelu_new", written with separate operators
            h = 0.5 * h * (1.0 + torch.tanh(0.7978845608028654 * (h + 0.044715 * torch.pow(h, 3.0))))
        return self.c_proj(h)


class GPT2Block(nn.Module):
    def __init__(self, c, piece):
        super().__init__()
        d, eps = c["n_embd"], c["layer_norm_epsilon"]
        self.piece = piece
        self.ln_1 = LayerNorm(d, eps)
        self.attn = GPT2Attention(c)
        self.ln_2 = LayerNorm(d, eps)
        self.mlp = GPT2MLP(c)

    def forward(self, x):
        x = _begin(x, self.piece)
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return _end(x, self.piece)


class GPT2(nn.Module):
    block = GPT2Block

    def __init__(self, c):
        super().__init__()
        d, v = c["n_embd"], c["vocab_size"]
        self.wte = Embedding(v, d, "wte")
        self.wpe = Embedding(c["n_positions"], d, "wpe")
        self.layers = nn.ModuleList(GPT2Block(c, f"layers.{i}") for i in range(c["n_layer"]))
        self.ln_f = LayerNorm(d, c["layer_norm_epsilon"], "ln_f")
        self.lm_head = Head(d, v, bias=False)
        if c["tie_word_embeddings"]:
            self.lm_head.weight = self.wte.weight

    def ends(self):
        return [self.wte, self.wpe], [self.ln_f, self.lm_head]

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.ln_f(x))


def llama_config(hidden=64, layers=3, heads=4, kv=2, inner=160, vocab=160, tied=False, positions=128):
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": inner,
        "max_position_embeddings": positions,
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "num_key_value_heads": kv,
        "rms_norm_eps": 1e-05,
        "rope_theta": 10000.0,
        "tie_word_embeddings": tied,
        "torch_dtype": "float32",
        "vocab_size": vocab,
    }


def gpt2_config(hidden=64, layers=3, heads=4, vocab=160, tied=True, positions=32):
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "activation_function": "gelu_new",
        "attn_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "layer_norm_epsilon": 1e-05,
        "n_ctx": positions,
        "n_embd": hidden,
        "n_head": heads,
        "n_inner": None,
        "n_layer": layers,
        "n_positions": positions,
        "resid_pdrop": 0.0,
        "tie_word_embeddings": tied,
        "torch_dtype": "float32",
        "vocab_size": vocab,
    }


# Names used in the recorded files.  "odd" sizes are divisible by nothing useful: they show padding and alignment.
CONFIGS = {
    "gpt2": gpt2_config(),
    "gpt2_untied": gpt2_config(tied=False),
    "gpt2_odd": gpt2_config(hidden=62, heads=2, vocab=163, positions=33),
    "llama": llama_config(),
    "llama_tied": llama_config(tied=True),
    "llama_odd": llama_config(hidden=66, heads=3, kv=1, inner=150, vocab=163),
}


def build(config, seed=0):
    torch.manual_seed(seed)
    return {"gpt2": GPT2, "llama": Llama}[config["model_type"]](config)


def model_block(config):
    """What a recorded file says about a model."""
    m = build(config)
    shapes = {n: list(p.shape) for n, p in m.named_parameters()}
    layer0 = {n: s for n, s in shapes.items() if n.startswith("layers.0.")}
    ends = {n: s for n, s in shapes.items() if not n.startswith("layers.")}
    return {
        "config": {k: v for k, v in config.items() if not k.startswith("_")},
        "parameters": sum(p.numel() for p in m.parameters()),
        "parameters_per_layer": sum(p.numel() for p in m.layers[0].parameters()),
        "shapes_layer": layer0,
        "shapes_rest": ends,
    }
