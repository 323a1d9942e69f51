"""The built-in parser's network: features of words, one encoder, and heads for tags, dependencies and constituents.

Shapes: B sentences, n words in the longest sentence, D encoder width, S words in all sentences,
F features per word, T tags, R relations, C constituent labels.
"""

import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from msgspec import Meta
from torch import Tensor, nn

# Spans, and arcs, scored at a time, so that what is computed for them stays in the CPU cache.
SPANS, ARCS = 1024, 256
# Of the leaky rectifiers, below 0.
SLOPE = 0.1

PAD, UNKNOWN = 0, 1
SPECIALS = 2
# Penn Treebank and SentEval spellings -> the characters in other English text.
PLAIN = {
    "-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}",
    "``": '"', "''": '"', "\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'", "`": "'",
}  # fmt: skip
APOSTROPHES = str.maketrans("\u2018\u2019", "''")
DIGIT, RUN = re.compile(r"\d"), re.compile(r"(.)\1+")
PREFIXES = (1, 3)
SUFFIXES = (2, 3, 4)
# Cache size in words: tens of megabytes.
REMEMBERED_WORDS = 1 << 17

Size = Annotated[int, Meta(ge=1, le=2**24)]
# Fenceposts ``(B, n + 1, ...)``, post ``i`` before word ``i``: as starts and as ends of spans. The functions that score
# spans number them across sentences.
Fenceposts = tuple[Tensor, Tensor]


def normalise(word: str) -> str:
    """The form to look up: lower case, plain quotes and brackets, digits as ``0``."""
    lowered = word.lower()
    lowered = PLAIN.get(lowered, lowered).translate(APOSTROPHES)
    return DIGIT.sub("0", lowered)


class Featuriser:
    """Integer features of words, cached for recent distinct words.

    A row is ``[form, prefix 1, prefix 3, suffix 2, suffix 3, suffix 4, shape]``: ``form`` indexes the learnt lower-case
    ``words``, whose ids follow those of padding and unknown; the others are rows of one table, in which each has
    ``buckets`` of its own. The shape of ``Word-9s`` is ``Xx-dx``: character classes, runs shortened to one.
    """

    n_hashed = len(PREFIXES) + len(SUFFIXES) + 1

    def __init__(self, words: Sequence[str], buckets: int):
        self.words = list(words)
        self.buckets = buckets
        self._ids = {word: i for i, word in enumerate(self.words, SPECIALS)}
        self._rows: dict[str, tuple[int, ...]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.words, self.buckets)  # pickled without the words seen so far

    def __call__(self, words: Iterable[str]) -> np.ndarray:
        """Features of words, shape ``(n, 1 + n_hashed)``, int32."""
        rows = []
        for word in words:
            if (row := self._rows.get(word)) is None:
                form = normalise(word)
                plain = word.translate(APOSTROPHES)
                classes = ["X" if c.isupper() else "x" if c.isalpha() else "d" if c.isdigit() else c for c in plain]
                shape = RUN.sub(r"\1", "".join(classes))
                pieces = [f"p{form[:k]}" for k in PREFIXES] + [f"s{form[-k:]}" for k in SUFFIXES] + [f"x{shape}"]
                # A lone surrogate, from a broken source, is hashed like any other character.
                hashes = (zlib.crc32(piece.encode("utf-8", "surrogatepass")) for piece in pieces)
                row = self._ids.get(form, UNKNOWN), *(i * self.buckets + n % self.buckets for i, n in enumerate(hashes))
                if len(self._rows) >= REMEMBERED_WORDS:
                    self._rows.clear()
                self._rows[word] = row
            rows.append(row)
        return np.fromiter(chain.from_iterable(rows), np.int32).reshape(-1, 1 + self.n_hashed)


@dataclass(frozen=True)
class ParserConfig:
    """Sizes of the network, stored with its weights."""

    n_words: Size
    n_tags: Size
    n_relations: Size
    n_labels: Size
    buckets: Size = 4000
    word_dim: Size = 128
    affix_dim: Size = 48
    dim: Size = 192
    blocks: Annotated[int, Meta(ge=1, le=100)] = 4
    heads: Size = 4
    arc_dim: Size = 192
    relation_dim: Size = 64
    span_dim: Size = 192
    dropout: float = 0.2


class SharedDropout(nn.Dropout1d):
    """Dropout with one mask for all words of a sentence, ``(B, n, D)``."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.transpose(1, 2)).transpose(1, 2) if self.training else x


class WordEmbedding(nn.Module):
    """Embed words: learnt forms and hashed affixes, concatenated and projected to the encoder width."""

    def __init__(self, config: ParserConfig):
        super().__init__()
        self.form = nn.Embedding(config.n_words + SPECIALS, config.word_dim)
        self.hashed = nn.Embedding(Featuriser.n_hashed * config.buckets, config.affix_dim)
        self.project = nn.Linear(config.word_dim + Featuriser.n_hashed * config.affix_dim, config.dim)
        self.norm = nn.LayerNorm(config.dim)
        nn.init.normal_(self.form.weight, std=0.1)
        nn.init.normal_(self.hashed.weight, std=0.1)

    def forward(self, features: Tensor) -> Tensor:
        """Map ``(..., F)`` integers to ``(..., D)``."""
        return self.norm(self.project(gathered(features, self.form.weight, self.hashed.weight)))


def gathered(features: Tensor, form: Tensor, hashed: Tensor) -> Tensor:
    """The vectors of each word's features, concatenated; the tables are those of ``WordEmbedding``."""
    affixes = torch.embedding(hashed, features[..., 1:]).flatten(-2)
    return torch.cat([torch.embedding(form, features[..., 0]), affixes], dim=-1)


class Block(nn.Module):
    """Gated depthwise convolution, attention and feed-forward layers, each in its own residual branch."""

    def __init__(self, config: ParserConfig, width: int = 5):
        super().__init__()
        dim = config.dim
        self.n_heads = config.heads
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(3))
        self.gate = nn.Linear(dim, 2 * dim)
        self.convolution = nn.Conv1d(dim, dim, width, padding=width // 2, groups=dim)
        self.mix = nn.Linear(dim, dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.attend = nn.Linear(dim, dim)
        self.feed = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.dropout = SharedDropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Encode ``x (B, n, D)``; ``mask (B, n)`` is true at words."""
        gated = F.glu(self.gate(self.norms[0](x)), dim=-1) * mask[..., None]
        # Treated as an image of height 1, which the CPU convolves without reordering the channels first.
        image, weight = gated.transpose(1, 2)[:, :, None], self.convolution.weight[:, :, None]
        padding, groups = (0, *self.convolution.padding), self.convolution.groups
        convolved = F.conv2d(image, weight, self.convolution.bias, padding=padding, groups=groups)
        x = x + self.dropout(self.mix(F.silu(convolved[:, :, 0].transpose(1, 2))))
        qkv = self.qkv(self.norms[1](x))
        x = x + self.dropout(self.attend(attended(qkv, hiding(mask, self.n_heads), self.n_heads)))
        return x + self.dropout(self.feed(self.norms[2](x)))


def hiding(mask: Tensor, n_heads: int) -> Tensor:
    """What attention adds to scores, to see no word outside ``mask (B, n)``: ``(B H, 1, n)`` for H heads, or a zero."""
    if mask.device.type == "cpu" and mask.all():
        return torch.zeros(1, 1, 1)
    return torch.zeros(mask.shape, device=mask.device).masked_fill_(~mask, -1e4).repeat_interleave(n_heads, 0)[:, None]


def attended(qkv: Tensor, hidden: Tensor, n_heads: int) -> Tensor:
    """Attention of words to the words of their sentence: ``qkv (B, n, 3 D)`` -> ``(B, n, D)``; see ``hiding``."""
    batch, n, dim = *qkv.shape[:2], qkv.shape[-1] // 3
    size = dim // n_heads
    q, k, v = qkv.view(batch, n, 3, n_heads, size).permute(2, 0, 3, 1, 4).flatten(1, 2)
    # Plain matrix products: sentences are short, and PyTorch's fused CPU kernel is slower.
    scores = torch.baddbmm(hidden.to(q.dtype), q, k.transpose(1, 2), alpha=size**-0.5)
    seen = torch.bmm(scores.softmax(dim=-1).to(v.dtype), v)
    return seen.view(batch, n_heads, n, size).transpose(1, 2).reshape(batch, n, dim)


class Biaffine(nn.Module):
    """Biaffine scores of (dependent, head) pairs, with one channel for arcs (Dozat and Manning 2017)."""

    def __init__(self, dim: int, hidden: int, channels: int, dropout: float):
        super().__init__()
        self.dependent = nn.Sequential(nn.Linear(dim, hidden), nn.LeakyReLU(SLOPE), SharedDropout(dropout))
        self.head = nn.Sequential(nn.Linear(dim, hidden), nn.LeakyReLU(SLOPE), SharedDropout(dropout))
        self.weight = nn.Parameter(torch.zeros(channels, hidden + 1, hidden + 1))
        nn.init.xavier_uniform_(self.weight[:, :hidden, :hidden])

    def project(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Project every position as dependent and as head; a constant 1 is appended for linear and bias terms."""
        return F.pad(self.dependent(x), (0, 1), value=1.0), F.pad(self.head(x), (0, 1), value=1.0)

    def all_pairs(self, dependent: Tensor, head: Tensor) -> Tensor:
        """Score all pairs of projected positions in one channel: ``(B, L, L)``, dependents in rows."""
        return (dependent @ self.weight[0]) @ head.transpose(1, 2)

    def forward(self, dependent: Tensor, head: Tensor) -> Tensor:
        """Score chosen pairs: two ``(S, hidden + 1)`` -> ``(S, channels)``."""
        mixed = torch.einsum("sa,cab->scb", dependent, self.weight)
        return torch.einsum("scb,sb->sc", mixed, head)


class SpanScorer(nn.Module):
    """Label scores of every span from the difference of its fencepost states (Kitaev and Klein 2018).

    The fencepost between two words is the first half of the left word's state and the second half
    of the right word's. The first layer is linear, so it is applied to fenceposts instead of spans.
    """

    def __init__(self, config: ParserConfig):
        super().__init__()
        self.first = nn.Linear(config.dim, config.span_dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(config.span_dim))
        self.last = nn.Linear(config.span_dim, config.n_labels)
        self.edges = nn.Parameter(torch.zeros(2, config.dim))

    def fenceposts(self, x: Tensor, mask: Tensor) -> Fenceposts:
        """The fenceposts of words ``(B, n, D)``."""
        posts = self.first(around(x, mask, self.edges.to(x.dtype)))
        return posts, posts + self.bias.to(posts.dtype)

    def forward(self, posts: Fenceposts, first: Tensor, last: Tensor) -> Tensor:
        """Label scores of spans: their first and last fenceposts, ``(M,)`` each, -> ``(M, C)``."""
        starts, ends = (each.flatten(0, 1) for each in posts)
        return self.last((ends.index_select(0, last) - starts.index_select(0, first)).relu_())


def around(x: Tensor, mask: Tensor, edges: Tensor) -> Tensor:
    """The states ``(B, n + 1, D)`` around fenceposts: half that of the word before, half that of the word after.

    ``edges (2, D)`` stand for the words before the first and after the last of ``x (B, n, D)``.
    """
    batch, _, dim = x.shape
    half = dim // 2
    x = torch.where(mask[..., None], x, edges[1])
    before = torch.cat([edges[0].expand(batch, 1, dim), x], dim=1)[..., :half]
    after = torch.cat([x, edges[1].expand(batch, 1, dim)], dim=1)[..., half:]
    return torch.cat([before, after], dim=-1)


def gains(scores: Callable[[Fenceposts, Tensor, Tensor], Tensor], posts: Fenceposts) -> Tensor:
    """Score of each span's best label minus that of no label: ``(n + 1, n, B)``, float32.

    It is indexed by width, first word and sentence, 0 where there is no span; ``scores`` are those of ``SpanScorer``.
    """
    batch, n_posts, _ = posts[0].shape

    def above_none(first: Tensor, last: Tensor) -> Tensor:
        found = scores(posts, first, last).float()
        return found[:, 1:].amax(dim=1) - found[:, 0]

    start, end = torch.triu_indices(n_posts, n_posts, 1)
    sentence = torch.arange(0, batch * n_posts, n_posts)
    spans = ((each[:, None] + sentence).flatten() for each in (start, end))
    best = torch.zeros(n_posts, n_posts - 1, batch)
    best[end - start, start] = in_blocks(above_none, SPANS, *spans).view(-1, batch)
    return best


def in_blocks(function: Callable[..., Tensor], size: int, *rows: Tensor) -> Tensor:
    """Apply a function to rows ``(S, ...)``, ``size`` rows at a time.

    The last block overlaps the previous one instead of being shorter: oneDNN prepares the product of each new shape,
    which takes a third of a millisecond, as long as the product itself.
    """
    count = len(rows[0])
    starts = range(0, max(count - size, 0) + 1, size)
    done = [function(*(each[start : start + size] for each in rows)) for start in starts]
    if rest := max(count - size, 0) % size:
        done.append(function(*(each[-size:] for each in rows))[-rest:])
    return torch.cat(done)


class Outputs(NamedTuple):
    """What a batch's trees are decoded from; in arcs and relations, position 0 is the root."""

    tags: Tensor  # (B, n, T) scores
    arcs: Tensor  # (B, n + 1, n + 1) scores, dependents in rows
    dependents: Tensor  # (B, n + 1, ...), for ``relations``
    heads: Tensor
    posts: Fenceposts  # for ``spans``


class ParserNetwork(nn.Module):
    """Computes scores for tags, arcs, relations and spans from words; ``decoding`` turns them into trees."""

    def __init__(self, config: ParserConfig):
        super().__init__()
        self.words = WordEmbedding(config)
        self.root = nn.Parameter(torch.zeros(config.dim))
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.blocks))
        self.norm = nn.LayerNorm(config.dim)
        self.dropout = SharedDropout(config.dropout)
        self.tags = nn.Linear(config.dim, config.n_tags)
        self.arcs = Biaffine(config.dim, config.arc_dim, 1, config.dropout)
        self.relations = Biaffine(config.dim, config.relation_dim, config.n_relations, config.dropout)
        self.spans = SpanScorer(config)

    def encode(self, words: Tensor, mask: Tensor) -> Tensor:
        """``(B, n, D)`` embedded words and ``(B, n)`` mask -> ``(B, n, D)`` states."""
        x = self.dropout(words)
        for block in self.blocks:
            x = block(x, mask)
        return self.dropout(self.norm(x))

    def outputs(self, words: Tensor, mask: Tensor) -> Outputs:
        """What trees are decoded from, for ``(B, n, D)`` embedded words and their mask ``(B, n)``."""
        states = self.encode(words, mask)
        rooted = self.with_root(states)
        arcs = self.arcs.all_pairs(*self.arcs.project(rooted))
        posts = self.spans.fenceposts(states, mask)
        return Outputs(self.tags(states), arcs, *self.relations.project(rooted), posts)

    def with_root(self, states: Tensor) -> Tensor:
        """Prepend the root's state to the words: ``(B, n, D)`` -> ``(B, n + 1, D)``."""
        return torch.cat([self.root.to(states.dtype).expand(len(states), 1, -1), states], dim=1)


def drop_words(features: Tensor, rate: float) -> Tensor:
    """Word dropout for training: make a form unknown with probability ``rate``; its affixes stay."""
    dropped = features.clone()
    dropped[..., 0][torch.rand(features.shape[:-1]) < rate] = UNKNOWN
    return dropped
