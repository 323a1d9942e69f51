"""Train the built-in parser's network on treebanks: tags, dependencies and constituents, or what of them there is.

The first treebank sets the conventions: the last epochs read it alone. Silver trees, which a parser made from text, are
distributed over the first ones. The network and its losses are those of docs/parser.md.

Shapes: n words, F features per word, S spans; the rest as in ``parsing.neural``.
"""

import random
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from rich.console import Console
from torch import Tensor

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.sentence import ParsedSentence
from structviews.errors import InputError
from structviews.parsing.backends.builtin import BuiltinParser, ParserSettings
from structviews.parsing.neural import Featuriser, ParserConfig, ParserNetwork, drop_words, normalise
from structviews.parsing.parser import CONSTITUENCY, DEPENDENCY, Options
from structviews.parsing.treebank import read_treebank
from structviews.runs.folder import STATE
from structviews.runtime.device import best_device, half_precision
from structviews.runtime.documents import read_sealed, write_json
from structviews.runtime.files import creating, digest, write_whole
from structviews.runtime.terminal import Bar, Terminal, say
from structviews.runtime.wording import counted
from structviews.training.checkpoint import Progress, load_state, random_state, save_state
from structviews.words.vector_files import WordVectors

VERSION = "1"
JOB, CARD = "job.json", "README.md"
# Of the epochs, the share at the end that reads the first treebank alone, and that at the beginning with silver trees.
FIRST_ALONE, WITH_SILVER = 0.35, 0.3
# Padded words of a batch; AdamW's highest rate, the steps in which it is reached, and the largest norm of a gradient.
BATCH_WORDS, RATE, WARM_UP, LARGEST = 1000, 1.5e-3, 600, 5.0
WORD_DROPOUT, LOWER_CASE = 0.2, 0.15
# As many passes as a large treebank needs, and the steps that a small one needs.
EPOCHS, STEPS = 20, 4000
# Between checkpoints, beside those of finished epochs.
SAVE_SECONDS = 300
# The label of what silver trees have and the treebanks do not: PyTorch's, for no loss.
IGNORED = -100
# The rarest forms, and labels or chains of constituents, that are learnt.
MIN_WORDS, MIN_LABELS = 2, 4
# Every n-th sentence of the first treebank calibrates the ranges of activations.
CALIBRATION = 30
# The words of a treebank whose text has to be fetched; the tag of words without one.
NO_WORD, NO_TAG = {"_"}, "_"


class Treebank(NamedTuple):
    """The sentences of a .conllu file, a bracketed file, or both over the same words, and the files' names."""

    name: str
    sentences: list[ParsedSentence]


@dataclass(frozen=True)
class ParserJob:
    """What a parser is made from, and where it is saved.

    ``treebanks`` and ``dev`` are files; those of one treebank differ in their suffix only. ``words`` are pretrained
    vectors, and ``silver`` corpora that another parser parsed. 0 ``epochs`` are ``EPOCHS``, or as take ``STEPS``.
    """

    treebanks: tuple[Path, ...]
    dev: tuple[Path, ...]
    out: Path
    words: Path | None = None
    silver: tuple[Path, ...] = ()
    epochs: int = 0
    seed: int = 1
    language: str = "en"
    licence: str = ""

    def described(self) -> dict[str, Any]:
        """What identifies the parser that it makes: settings, and a digest of the files."""
        files = {"treebanks": self.treebanks, "dev": self.dev, "words": (self.words,) if self.words else ()}
        content = {role: [digest(path.read_bytes()) for path in paths] for role, paths in files.items()}
        silver = [ParsedCorpus.open(path).fingerprint for path in self.silver]
        settings = {"epochs": self.epochs, "seed": self.seed, "language": self.language}
        return {"content": content, "silver": silver, "version": VERSION, **settings}


class Example(NamedTuple):
    """A sentence as integers; ``IGNORED`` for the words' annotation that it lacks, None for no constituents."""

    cased: np.ndarray  # (n, F)
    lowered: np.ndarray  # (n, F)
    tags: np.ndarray  # (n,)
    heads: np.ndarray  # (n,)
    relations: np.ndarray  # (n,)
    spans: np.ndarray | None  # (constituents, 3): start, end, label


def read_treebanks(paths: Sequence[Path]) -> list[Treebank]:
    """The treebanks in some files, in order; sentences without text are left out.

    Raises InputError if a file cannot be read, a sentence is no tree, or a treebank has no sentences, no relation
    ``root`` or no labels of constituents.
    """
    found = []
    for stem in dict.fromkeys(path.with_suffix("") for path in paths):
        files = [path for path in paths if path.with_suffix("") == stem]
        sentences = []
        for item in read_treebank(files):
            if not isinstance(item.sentence, ParsedSentence):
                raise InputError(f"{files[0]}:{item.line}: {item.sentence.reason}: correct the sentence, or remove it")
            if set("".join(item.sentence.tokens)) != NO_WORD:
                sentences.append(item.sentence)
        if not sentences:
            raise InputError(f"{files[0]}: no sentences with words and trees: give a treebank with its text")
        if any(each.heads for each in sentences) and not any("root" in each.relations for each in sentences):
            raise InputError(f"{files[0]}: no relation 'root': give a treebank of Universal Dependencies")
        if sentences[0].has_constituents and not any(each.spans() for each in sentences):
            raise InputError(f"{files[0]}: no labels of constituents: give trees with labels, or CoNLL-U alone")
        found.append(Treebank(" + ".join("/".join(path.parts[-2:]) for path in files), sentences))
    return found


def vocabularies(sentences: Sequence[ParsedSentence], forms: Sequence[str], language: str) -> ParserSettings:
    """The settings but for the sizes: vocabularies, most frequent first, with all ``forms``, however rare."""

    def frequent(items: Iterable[str], least: int = 1) -> list[str]:
        counts = sorted(Counter(items).items(), key=lambda each: (-each[1], each[0]))
        enough = [item for item, count in counts if count >= least]
        return enough or [item for item, _ in counts]  # all of a very small treebank

    kinds = {DEPENDENCY: "has_dependencies", CONSTITUENCY: "has_constituents"}
    words = frequent((normalise(token) for each in sentences for token in each.tokens), MIN_WORDS)
    return ParserSettings(
        version=VERSION,
        config={},
        words=list(dict.fromkeys([*words, *forms])),
        tags=frequent(tag for each in sentences for tag in each.tags) or [NO_TAG],
        relations=frequent(relation for each in sentences for relation in each.relations) or ["root"],
        labels=["", *frequent((label for each in sentences for *_, label in each.spans()), MIN_LABELS)],
        kinds=[kind for kind, has in kinds.items() if any(getattr(each, has) for each in sentences)],
        language=language,
    )


def encoded(sentences: Iterable[ParsedSentence], settings: ParserSettings, featuriser: Featuriser) -> list[Example]:
    """Sentences as integers; a rare unary chain becomes its topmost known part."""
    ids = {key: {name: i for i, name in enumerate(settings[key])} for key in ("tags", "relations", "labels")}

    def label_id(label: str) -> int:
        while label not in ids["labels"]:
            label = label.rpartition("+")[0]
        return ids["labels"][label]

    def known(key: str, names: Sequence[str], n: int) -> np.ndarray:
        return np.array([ids[key].get(name, IGNORED) for name in names or [""] * n])

    def spans(each: ParsedSentence) -> np.ndarray:
        return np.array([(a, b, label_id(x)) for a, b, x in each.spans()], dtype=np.int64).reshape(-1, 3)

    return [
        Example(
            featuriser(each.tokens),
            featuriser(token.lower() for token in each.tokens),
            known("tags", each.tags, len(each.tokens)),
            np.array(each.heads or [IGNORED] * len(each.tokens)),
            known("relations", each.relations, len(each.tokens)),
            spans(each) if each.has_constituents else None,
        )
        for each in sentences
    ]


def batched(examples: Sequence[Example], rng: random.Random) -> list[list[Example]]:
    """Batches of about ``BATCH_WORDS`` padded words and similar lengths."""
    found, longest = list[list[Example]](), 0
    for example in sorted(examples, key=lambda each: len(each.cased) * rng.uniform(0.9, 1.1)):
        longest = max(longest, len(example.cased))
        if not found or longest * (len(found[-1]) + 1) > BATCH_WORDS:
            found.append([])
            longest = len(example.cased)
        found[-1].append(example)
    return found


def loss_of(
    network: ParserNetwork, batch: list[Example], device: torch.device, word_dropout: float = WORD_DROPOUT
) -> Tensor:
    """Sum of the cross-entropies of tags, heads, relations and span labels, each per word, of one treebank's batch."""
    lengths = np.array([len(each.cased) for each in batch])
    inside = np.arange(lengths.max()) < lengths[:, None]
    lower = (torch.rand(len(batch)) < LOWER_CASE).tolist()
    chosen = np.concatenate([each.lowered if low else each.cased for low, each in zip(lower, batch, strict=True)])
    features = torch.zeros(*inside.shape, chosen.shape[1], dtype=torch.int32)
    features[torch.from_numpy(inside)] = torch.from_numpy(chosen)
    mask = torch.from_numpy(inside).to(device)
    states = network.encode(network.words(drop_words(features, word_dropout).to(device)), mask)

    def column(name: str) -> Tensor | None:
        found = np.concatenate([getattr(example, name) for example in batch])
        return torch.from_numpy(found).to(device) if (found != IGNORED).any() else None

    tags, heads, relations = map(column, ("tags", "heads", "relations"))
    loss = states.new_zeros(())
    if tags is not None:
        loss = loss + F.cross_entropy(network.tags(states[mask]).float(), tags)
    if heads is not None and relations is not None:
        rooted = network.with_root(states)
        sentence, word = mask.nonzero(as_tuple=True)
        arcs = network.arcs.all_pairs(*network.arcs.project(rooted)).float()
        seen = F.pad(mask, (1, 0), value=True)
        loss = loss + F.cross_entropy(arcs.masked_fill_(~seen[:, None, :], -1e9)[:, 1:][mask], heads)
        dependents, heads_states = network.relations.project(rooted)
        scores = network.relations(dependents[sentence, word + 1], heads_states[sentence, heads.clamp(min=0)]).float()
        loss = loss + F.cross_entropy(scores, relations)
    if batch[0].spans is not None:
        loss = loss + span_loss(network, batch, states, mask)
    return loss


def span_loss(network: ParserNetwork, batch: list[Example], states: Tensor, mask: Tensor) -> Tensor:
    """Cross-entropy of every span's label, including "no constituent", summed and divided by words."""
    lengths = np.array([len(each.cased) for each in batch])
    size = lengths.max() + 1
    gold = np.zeros((len(batch), size, size), dtype=np.int64)
    for number, example in enumerate(batch):
        if example.spans is not None:
            start, end, label = example.spans.T
            gold[number, start, end] = label
    start, end = np.triu_indices(size, k=1)
    sentence, span = np.nonzero(end <= lengths[:, None])
    start, end = start[span], end[span]
    first, last = (torch.from_numpy(sentence * size + each).to(mask.device) for each in (start, end))
    scores = network.spans(network.spans.fenceposts(states, mask), first, last).float()
    true = torch.from_numpy(gold[sentence, start, end]).to(mask.device)
    return F.cross_entropy(scores, true, reduction="sum") / int(lengths.sum())


def score(parser: BuiltinParser, gold: Sequence[ParsedSentence]) -> dict[str, float]:
    """Accuracy of tags, UAS, LAS (labels without subtypes, punctuation counted), bracket F1; per cent.

    On gold tokens, of what the gold sentences have.
    """
    found: Counter[str] = Counter()
    for guess, truth in zip(parser.parse([each.tokens for each in gold]), gold, strict=True):
        found["tagged"] += len(truth.tags)
        found["headed"] += len(truth.heads)
        found["tags"] += sum(map(str.__eq__, guess.tags, truth.tags))
        heads = [a == b for a, b in zip(guess.heads, truth.heads, strict=False)]
        found["UAS"] += sum(heads)
        labels = zip(heads, guess.relations, truth.relations, strict=False)
        found["LAS"] += sum(right and a.split(":")[0] == b.split(":")[0] for right, a, b in labels)
        # Over words: unary chains are split, and tags do not count.
        guessed, true = (
            Counter((a, b, label) for a, b, chain in each.spans() for label in chain.split("+"))
            for each in (guess, truth)
        )
        found["common"] += (guessed & true).total()
        found["brackets"] += (guessed.total() + true.total()) * truth.has_constituents
    found["F1"] = 2 * found["common"]
    of = {"tags": "tagged", "UAS": "headed", "LAS": "headed", "F1": "brackets"}
    return {name: 100 * found[name] / found[total] for name, total in of.items() if found[total]}


def rate_at(step: int, steps: int) -> float:
    """The learning rate: linear warm-up, then linear decay to zero."""
    warm_up = min(WARM_UP, steps // 4)
    return RATE * min((step + 1) / (warm_up + 1), (steps - step) / (steps - warm_up))


def parts_of(epoch: int, epochs: int, data: Sequence[list[Example]], silver: Sequence[list[Example]]) -> list[Any]:
    """What an epoch reads: the first treebank, most of the time the others, and in the first epochs silver trees."""
    parts = [data[0]] if epoch >= epochs - round(FIRST_ALONE * epochs) else list(data)
    n_silver = max(1, round(WITH_SILVER * epochs))
    return [*parts, *(each[epoch::n_silver] for each in silver if epoch < n_silver)]


def train_parser(job: ParserJob, console: Console | None = None) -> BuiltinParser:
    """Train a parser, or resume it if it was interrupted; write it to ``job.out``, with a card, and return it.

    The ``console`` shows progress and scores. Raises InputError if a file is not a treebank, or if the folder holds
    something else.
    """
    console = console or Terminal(quiet=True)
    Options(language=job.language)  # raises InputError for a code that no command takes
    vectors = WordVectors.open(job.words) if job.words else None
    if vectors and vectors.dim != ParserConfig.word_dim:
        raise InputError(f"{vectors.path}: {vectors.dim} dimensions: give vectors of {ParserConfig.word_dim}")
    treebanks, dev = read_treebanks(job.treebanks), read_treebanks(job.dev)
    with creating(job.out):
        started, described = job.out / JOB, job.described()
        if started.exists():
            if read_sealed(started, dict[str, Any], f"delete {job.out} to start over")["job"] != described:
                raise InputError(f"{job.out}: belongs to a parser of other files or settings: give another --out")
        elif job.out.exists() and any(path.name[0] != "." for path in job.out.iterdir()):
            raise InputError(f"{job.out}: already exists: give another folder with --out")
        if (job.out / CARD).exists():  # written last
            say(console, f"{job.out}: already trained")
            shutil.rmtree(job.out / STATE, ignore_errors=True)  # if it was killed there
            return BuiltinParser.read(job.out)
        job.out.mkdir(exist_ok=True)
        write_json(started, {"job": described})
        parser = learn(job, treebanks, dev, vectors, console)
        parser.calibrate([each.tokens for each in treebanks[0].sentences[::CALIBRATION]])
        parser.save(job.out)
        parser = BuiltinParser.read(job.out)
        scores = {each.name: score(parser, each.sentences) for each in dev}
        write_whole(job.out / CARD, card(job, treebanks, scores).encode())
        shutil.rmtree(job.out / STATE)
    for name, own in scores.items():
        say(console, f"{name}: {listed(own)}")
    return parser


def learn(
    job: ParserJob, treebanks: list[Treebank], dev: list[Treebank], vectors: WordVectors | None, console: Console
) -> BuiltinParser:
    """Train from the start, or from the state in ``job.out``; the parser is in floats, on the CPU."""
    device, run = best_device(), job.out
    forms = [word for word in vectors.words.to_pylist() if normalise(word) == word] if vectors else []
    settings = vocabularies([sentence for each in treebanks for sentence in each.sentences], forms, job.language)
    torch.manual_seed(job.seed)
    config = ParserConfig(*(len(settings[key]) for key in ("words", "tags", "relations", "labels")))
    network = ParserNetwork(config)
    parser = BuiltinParser(network, {**settings, "config": asdict(config)})
    if vectors:
        # Their forms begin with them, rescaled to match the others.
        table, found = network.words.form.weight.data, torch.from_numpy(vectors.rows(vectors.find(forms)))
        own = torch.from_numpy(parser.featuriser(forms)[:, 0].astype(np.int64))
        table[own] = found * (table.std() / found.std())
    data = [encoded(each.sentences, settings, parser.featuriser) for each in treebanks]
    corpora = ((row.sentence for row in ParsedCorpus.open(path)) for path in job.silver)
    silver = [encoded(each, settings, parser.featuriser) for each in corpora]
    epochs = job.epochs or max(EPOCHS, STEPS // sum(len(batched(each, random.Random(0))) for each in data))
    parts = [parts_of(epoch, epochs, data, silver) for epoch in range(epochs)]
    n_steps = sum(len(batched(part, random.Random(0))) for each in parts for part in each)
    network.to(device)
    optimiser = torch.optim.AdamW(network.parameters(), lr=RATE, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    start = load_state(run, network, optimiser)
    step, done, saved = start.step, start.batch, time.monotonic()
    half = half_precision("auto", device)
    with Bar(console, run.name, "batches") as bar:
        for epoch in range(start.epoch, epochs):
            rng, total = random.Random(job.seed + epoch), torch.zeros((), device=device)
            batches = [batch for part in parts[epoch] for batch in batched(part, rng)]
            rng.shuffle(batches)
            network.to(device).train()
            for number, batch in enumerate(batches[done:], done + 1):
                for group in optimiser.param_groups:
                    group["lr"] = rate_at(step, max(step + 1, n_steps))
                optimiser.zero_grad(set_to_none=True)
                with torch.autocast(device.type, torch.bfloat16, enabled=half):
                    loss = loss_of(network, batch, device)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(network.parameters(), LARGEST)
                optimiser.step()
                total += loss.detach()
                step += 1
                bar(step, max(step, n_steps))
                if time.monotonic() - saved > SAVE_SECONDS:
                    save_state(run, network, optimiser, Progress(step, epoch, number), random_state()[None])
                    saved = time.monotonic()
            network.eval().cpu()
            mean, scores = float(total) / max(len(batches) - done, 1), listed(score(parser, dev[0].sentences))
            say(console, f"epoch {epoch + 1} of {epochs}: loss {mean:.3f}; {dev[0].name}: {scores}")
            done = 0
            save_state(run, network, optimiser, Progress(step, epoch + 1), random_state()[None])
    network.cpu()  # if all epochs were done before
    return parser


def listed(scores: dict[str, float]) -> str:
    """Scores in one line."""
    return ", ".join(f"{name} {value:.2f}" for name, value in scores.items())


def card(job: ParserJob, treebanks: Sequence[Treebank], scores: dict[str, dict[str, float]]) -> str:
    """The parser's README: what it was trained on, under which licence, and its scores."""
    trained = [f"- {each.name}: {counted(len(each.sentences), 'sentence')}" for each in treebanks]
    trained += [f"- {path.name}: parsed by another parser" for path in job.silver]
    trained += [f"- {job.words.name}: word vectors"] if job.words else []
    names = list(dict.fromkeys(name for own in scores.values() for name in own))
    rows = [[title, *(f"{own[name]:.2f}" if name in own else "-" for name in names)] for title, own in scores.items()]
    table = [["", *names], ["---", *["--:"] * len(names)], *rows]
    return "\n".join(
        [
            f"# A parser for {job.language}",
            "",
            "Made by `structviews parser train` for `--parser FOLDER`. It was trained on:",
            "",
            *trained,
            "",
            f"Licence of the data: {job.licence or 'not stated'}.",
            "",
            "Scores on development data, with gold tokens: accuracy of tags; attachment without and with labels, whose "
            "subtypes do not count; F1 of labelled brackets.",
            "",
            *(f"| {' | '.join(row)} |" for row in table),
            "",
        ]
    )
