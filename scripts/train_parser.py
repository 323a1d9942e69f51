"""Train the built-in parser: joint tags, dependencies and constituents.

    python scripts/parser_words.py novels-*.txt.zst -o words.vec
    structviews parse novels-000.txt.zst -o novels.parsed
    python scripts/train_parser.py --treebanks TREEBANKS --words words.vec --silver novels.parsed --out FOLDER

GUM has both kinds of tree. EWT has only dependencies and tags and is left out of the last epochs,
so that the model ends on GUM's conventions. Silver trees, which an earlier parser made from plain text (--silver),
are distributed over the first epochs. The state is saved after every epoch; run the same command
again to resume from it. Scores on GUM's dev set are printed at the end and with --score-only.
"""

import argparse
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import Tensor

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.sentence import ParsedSentence
from structviews.parsing.backends.builtin import BuiltinParser
from structviews.parsing.neural import Featuriser, ParserConfig, ParserNetwork, drop_words, normalise
from structviews.parsing.treebank import read_treebank
from structviews.runtime.device import multiplies_half
from structviews.runtime.files import write_whole
from structviews.words.vector_files import WordVectors

VERSION = "1"
# Every n-th sentence calibrates the activation ranges.
CALIBRATION = 30


@dataclass
class Example:
    """A sentence as integers."""

    cased: np.ndarray  # (n, F)
    lowered: np.ndarray  # (n, F)
    tags: np.ndarray  # (n,)
    heads: np.ndarray  # (n,)
    relations: np.ndarray  # (n,)
    spans: np.ndarray | None  # (constituents, 3): start, end, label; None without such a tree


def load(*paths: Path) -> list[ParsedSentence]:
    """The sentences of a treebank that are trees and contain words."""
    sentences = [item.sentence for item in read_treebank(paths)]
    return [s for s in sentences if isinstance(s, ParsedSentence) and set("".join(s.tokens)) != {"_"}]


def silver_sentences(corpora: Iterable[Path]) -> Iterator[ParsedSentence]:
    """The sentences of parsed corpora."""
    for corpus in corpora:
        for row in ParsedCorpus.open(corpus):
            yield row.sentence


def lower(sentence: ParsedSentence) -> list[str]:
    """The sentence's words in lower case."""
    return [token.lower() for token in sentence.tokens]


def vocabularies(
    sentences: Sequence[ParsedSentence], min_words: int, min_labels: int, forms: Sequence[str] = ()
) -> dict:
    """The vocabularies, most frequent first; all of ``forms`` are included, however rare."""

    def frequent(counts: Counter, least: int) -> list[str]:
        return [item for item, count in sorted(counts.items(), key=lambda p: (-p[1], p[0])) if count >= least]

    words = Counter(normalise(t) for s in sentences for t in s.tokens)
    labels = Counter(label for s in sentences for _, _, label in s.spans())
    return {
        "version": VERSION,
        "words": list(dict.fromkeys([*frequent(words, min_words), *forms])),
        "tags": frequent(Counter(t for s in sentences for t in s.tags), 1),
        "relations": frequent(Counter(r for s in sentences for r in s.relations), 1),
        "labels": ["", *frequent(labels, min_labels)],
    }


def begin_with(network: ParserNetwork, featuriser: Featuriser, vectors: WordVectors) -> None:
    """Initialise the forms that have pretrained vectors with these, rescaled to match the others."""
    forms = vectors.words.to_pylist()
    rows = torch.from_numpy(featuriser(forms)[:, 0].astype(np.int64))
    found = torch.from_numpy(vectors.rows(vectors.find(forms)))
    table = network.words.form.weight.data
    table[rows] = found * (table.std() / found.std())


def encode(sentences: Iterable[ParsedSentence], vocabulary: dict, featuriser: Featuriser) -> list[Example]:
    """Encode sentences as integers; a rare unary chain becomes its topmost known part."""
    tag_ids = {tag: i for i, tag in enumerate(vocabulary["tags"])}
    relation_ids = {relation: i for i, relation in enumerate(vocabulary["relations"])}
    label_ids = {label: i for i, label in enumerate(vocabulary["labels"])}

    def label_id(label: str) -> int:
        while label and label not in label_ids:
            label = label.rpartition("+")[0]
        return label_ids[label]

    return [
        Example(
            featuriser(s.tokens),
            featuriser(lower(s)),
            np.array([tag_ids[t] for t in s.tags]),
            np.array(s.heads),
            np.array([relation_ids[r] for r in s.relations]),
            np.array([(a, b, label_id(x)) for a, b, x in s.spans()], dtype=np.int64).reshape(-1, 3)
            if s.has_constituents
            else None,
        )
        for s in sentences
    ]


def batches(examples: Sequence[Example], words: int, rng: random.Random) -> Iterator[list[Example]]:
    """Batches of about ``words`` padded words and similar lengths, in random order."""
    order = sorted(examples, key=lambda e: len(e.tags) * rng.uniform(0.9, 1.1))
    made: list[list[Example]] = [[]]
    for example in order:
        longest = max([len(e.tags) for e in made[-1]] + [len(example.tags)])
        if made[-1] and longest * (len(made[-1]) + 1) > words:
            made.append([])
        made[-1].append(example)
    rng.shuffle(made)
    yield from made


def span_index(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sentence, start and end of every span of a batch."""
    n = lengths.max()
    start, end = np.triu_indices(n + 1, k=1)
    sentence, span = np.nonzero(end <= lengths[:, None])
    return sentence, start[span], end[span]


def loss_of(network: ParserNetwork, batch: list[Example], args: argparse.Namespace, rng: random.Random) -> Tensor:
    """Sum of the cross-entropies of tags, heads, relations and span labels, each per word."""
    lengths = np.array([len(e.tags) for e in batch])
    mask = torch.from_numpy(np.arange(lengths.max()) < lengths[:, None])
    chosen = [e.lowered if rng.random() < args.lower_case else e.cased for e in batch]
    features = torch.zeros(*mask.shape, chosen[0].shape[1], dtype=torch.int32)
    features[mask] = torch.from_numpy(np.concatenate(chosen))
    tags, heads, relations = (
        torch.from_numpy(np.concatenate([getattr(e, name) for e in batch])) for name in ("tags", "heads", "relations")
    )
    states = network.encode(network.words(drop_words(features, args.word_dropout)), mask)
    loss = F.cross_entropy(network.tags(states[mask]).float(), tags)
    rooted = network.with_root(states)
    sentence, word = mask.nonzero(as_tuple=True)
    arc_scores = network.arcs.all_pairs(*network.arcs.project(rooted)).float()
    seen = F.pad(mask, (1, 0), value=True)
    arc_scores = arc_scores.masked_fill(~seen[:, None, :], -1e9)[:, 1:][mask]
    loss = loss + F.cross_entropy(arc_scores, heads)
    as_dependent, as_head = network.relations.project(rooted)
    relation_scores = network.relations(as_dependent[sentence, word + 1], as_head[sentence, heads]).float()
    loss = loss + F.cross_entropy(relation_scores, relations)
    if batch[0].spans is not None:
        loss = loss + span_loss(network, batch, states, mask, lengths)
    return loss


def span_loss(
    network: ParserNetwork, batch: list[Example], states: Tensor, mask: Tensor, lengths: np.ndarray
) -> Tensor:
    """Cross-entropy of every span's label, including "no constituent", summed and divided by words."""
    gold = np.zeros((len(batch), lengths.max() + 1, lengths.max() + 1), dtype=np.int64)
    for b, example in enumerate(batch):
        start, end, label = example.spans.T
        gold[b, start, end] = label
    sentence, start, end = span_index(lengths)
    first_post = sentence * (lengths.max() + 1)
    ends = (torch.from_numpy(first_post + each) for each in (start, end))
    scores = network.spans(network.spans.fenceposts(states, mask), *ends).float()
    true = torch.from_numpy(gold[sentence, start, end])
    return F.cross_entropy(scores, true, reduction="sum") / int(lengths.sum())


def brackets(sentence: ParsedSentence) -> Counter:
    """Labelled constituents over words, with unary chains split and tags excluded."""
    return Counter((a, b, part) for a, b, chain in sentence.spans() for part in chain.split("+"))


def score(parser: BuiltinParser, gold: Sequence[ParsedSentence], lowered: bool) -> dict[str, float]:
    """Tag accuracy, UAS, LAS (labels without subtypes, punctuation counted), bracket F1; per cent."""
    began = time.perf_counter()
    parsed = parser.parse([lower(s) if lowered else s.tokens for s in gold])
    seconds = time.perf_counter() - began
    hits, words, common, ours, theirs = Counter(), 0, 0, 0, 0
    for guess, truth in zip(parsed, gold, strict=True):
        words += len(truth.tokens)
        hits["tags"] += sum(map(str.__eq__, guess.tags, truth.tags))
        right = [a == b for a, b in zip(guess.heads, truth.heads, strict=True)]
        same = [a.split(":")[0] == b.split(":")[0] for a, b in zip(guess.relations, truth.relations, strict=True)]
        hits["UAS"] += sum(right)
        hits["LAS"] += sum(a and b for a, b in zip(right, same, strict=True))
        if truth.has_constituents:
            guessed, true = brackets(guess), brackets(truth)
            common += (guessed & true).total()
            ours += guessed.total()
            theirs += true.total()
    scores = {name: 100 * count / words for name, count in hits.items()}
    if theirs:
        scores["F1"] = 200 * common / (ours + theirs)
    return scores | {"sentences/s": len(gold) / seconds}


def show(title: str, scores: dict[str, float]) -> None:
    """One line of scores."""
    print(f"{title:<22}" + "  ".join(f"{name} {value:.2f}" for name, value in scores.items()), flush=True)


def schedule(step: int, warm_up: int, steps: int) -> float:
    """Linear warm-up, then linear decay to zero."""
    return min((step + 1) / warm_up, max(0.0, (steps - step) / (steps - warm_up)))


@dataclass
class Job:
    """Everything that training changes; saved in the state file."""

    network: ParserNetwork
    optimiser: torch.optim.Optimizer
    scheduler: torch.optim.lr_scheduler.LRScheduler

    def resume(self, file: Path) -> int:
        """Restore the saved state, if there is one; return the number of finished epochs."""
        if not file.exists():
            return 0
        state = torch.load(file, weights_only=True)
        for name, part in vars(self).items():
            part.load_state_dict(state[name])
        return state["epoch"]

    def save(self, file: Path, epoch: int) -> None:
        """Save the state after ``epoch`` epochs."""
        file.parent.mkdir(parents=True, exist_ok=True)
        state = {name: part.state_dict() for name, part in vars(self).items()} | {"epoch": epoch}
        write_whole(file, lambda stream: torch.save(state, stream))


def parts_of(epoch: int, data: Sequence[Sequence[Example]], args: argparse.Namespace) -> list[Sequence[Example]]:
    """The GUM, EWT and silver examples of an epoch."""
    gum, ewt, silver = data
    parts = [gum]
    if epoch < args.epochs - args.gum_epochs:
        parts.append(ewt)
    if silver and epoch < args.silver_epochs:
        parts.append(silver[epoch :: args.silver_epochs])
    return parts


def new_job(network: ParserNetwork, data: Sequence[Sequence[Example]], args: argparse.Namespace) -> Job:
    """AdamW with a schedule over all steps."""

    def steps_of(part: Sequence[Example]) -> int:
        return sum(1 for _ in batches(part, args.batch_words, random.Random(0)))

    steps = sum(steps_of(part) for epoch in range(args.epochs) for part in parts_of(epoch, data, args))
    optimiser = torch.optim.AdamW(network.parameters(), lr=args.lr, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda s: schedule(s, args.warm_up, steps))
    return Job(network, optimiser, scheduler)


def train_epoch(
    job: Job, parts: Sequence[Sequence[Example]], args: argparse.Namespace, rng: random.Random, half: bool
) -> tuple[float, float]:
    """One pass over the parts, with their batches mixed; return mean loss and sentences per second."""
    job.network.train()
    mixed = [batch for part in parts for batch in batches(part, args.batch_words, rng)]
    rng.shuffle(mixed)
    began, total = time.perf_counter(), 0.0
    for batch in mixed:
        job.optimiser.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = loss_of(job.network, batch, args, rng)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(job.network.parameters(), 5.0)
        job.optimiser.step()
        job.scheduler.step()
        total += loss.item()
    job.network.eval()
    return total / len(mixed), sum(map(len, mixed)) / (time.perf_counter() - began)


def train(args: argparse.Namespace) -> None:
    """Train from the start or from the saved state, then write the parser."""
    torch.manual_seed(args.seed)
    gum = load(args.treebanks / "gum/train.conllu", args.treebanks / "gum/train.ptb")
    ewt = load(args.treebanks / "ewt/train.conllu")
    dev = load(args.treebanks / "gum/dev.conllu", args.treebanks / "gum/dev.ptb")
    vectors = WordVectors.open(args.words) if args.words else None
    forms = vectors.words.to_pylist() if vectors else []
    vocabulary = vocabularies([*gum, *ewt], args.min_words, args.min_labels, forms)
    config = ParserConfig(*(len(vocabulary[key]) for key in ("words", "tags", "relations", "labels")))
    network = ParserNetwork(config)
    print(f"{len(gum)} + {len(ewt)} sentences, {sum(p.numel() for p in network.parameters()):,} parameters", flush=True)

    parser = BuiltinParser(network, vocabulary | {"config": vars(config)})
    if vectors:
        begin_with(network, parser.featuriser, vectors)
    data = [encode(part, vocabulary, parser.featuriser) for part in (gum, ewt, silver_sentences(args.silver))]
    job = new_job(network, data, args)
    state_file = args.out / "training-state.pt"
    for epoch in range(job.resume(state_file), args.epochs):
        torch.manual_seed(args.seed + epoch)
        rng = random.Random(args.seed + epoch)
        parts = parts_of(epoch, data, args)
        loss, rate = train_epoch(job, parts, args, rng, multiplies_half(torch.device("cpu")))
        print(f"epoch {epoch + 1}/{args.epochs}: loss {loss:.3f}, {rate:.0f} sentences/s", flush=True)
        show("  GUM dev", score(parser, dev, lowered=False))
        job.save(state_file, epoch + 1)
    parser.calibrate([sentence.tokens for sentence in gum[::CALIBRATION]])
    parser.save(args.out)
    state_file.unlink(missing_ok=True)
    report(args)


def report(args: argparse.Namespace) -> None:
    """Scores of the parser as written, on gold tokens."""
    parser = BuiltinParser.read(args.out)
    gum = load(args.treebanks / "gum/dev.conllu", args.treebanks / "gum/dev.ptb")
    ewt = load(args.treebanks / "ewt/dev.conllu")
    for title, gold in (("GUM dev", gum), ("EWT dev", ewt)):
        show(title, score(parser, gold, lowered=False))
        show(f"{title}, lower case", score(parser, gold, lowered=True))


def main() -> None:
    """Parse flags, train or score."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--treebanks", type=Path, required=True, help="folder with gum/ and ewt/")
    flags.add_argument("--out", type=Path, required=True, help="folder for the parser")
    flags.add_argument("--words", type=Path, help="pretrained vectors from parser_words.py")
    flags.add_argument("--silver", type=Path, nargs="*", default=[], help="corpora parsed by an earlier parser")
    flags.add_argument("--silver-epochs", type=int, default=6, help="number of first epochs to distribute them over")
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--epochs", type=int, default=20)
    flags.add_argument("--gum-epochs", type=int, default=7, help="last epochs, on GUM only")
    flags.add_argument("--batch-words", type=int, default=1000)
    flags.add_argument("--lr", type=float, default=1.5e-3)
    flags.add_argument("--warm-up", type=int, default=600, help="steps")
    flags.add_argument("--word-dropout", type=float, default=0.2)
    flags.add_argument("--lower-case", type=float, default=0.15, help="share of sentences in lower case")
    flags.add_argument("--min-words", type=int, default=2, help="minimum count of a form")
    flags.add_argument("--min-labels", type=int, default=4, help="minimum count of a constituent label or chain")
    flags.add_argument("--threads", type=int, default=1)
    flags.add_argument("--score-only", action="store_true")
    args = flags.parse_args()
    torch.set_num_threads(args.threads)
    report(args) if args.score_only else train(args)


if __name__ == "__main__":
    main()
