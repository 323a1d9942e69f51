"""The probing tasks: how each selects and labels sentences from a pool of parsed ones, and their files.

Ten are those of Conneau et al. (2018); ``docs/probing.md`` describes them, and how a smaller corpus changes them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.corpus.writer import write_subset
from structviews.errors import InputError
from structviews.evaluation.parses import Parses
from structviews.evaluation.probing import changes, labels, sampling
from structviews.evaluation.probing.changes import Text
from structviews.evaluation.probing.sampling import LEFT_OUT, PARTS
from structviews.evaluation.senteval.tasks.finding import PROBING
from structviews.runtime.arrays import Array
from structviews.runtime.documents import write_json
from structviews.runtime.files import new_folder, write_whole

TARGET_FREQUENCY = (100, 5_000)
ODD_FREQUENCY = (40, 400)
PUBLISHED_SIZE = 120_000  # examples for which these word frequencies are published; scaled down for fewer
CONTENT_WORDS = 1_000
SENTENCES_PER_WORD = 240  # for each content word: about ten examples of it in the smallest part
# Minimum length of each class but the first; for sentences of 5 to 28 words, SentEval's six bins.
LENGTH_BINS = (9, 13, 17, 21, 26)
DEPTHS = range(5, 13)
SEQUENCES = 19
LEAST_OF_CLASS = 10  # examples in each part. Rarer classes are dropped; rarer TopConst sequences are OTHER.


class Pool(NamedTuple):
    """The sentences that tasks are made from, and the task's random number generator."""

    parses: Parses
    parts: Array  # (B,) of the sentences, -1 for repetitions of an earlier one
    most: tuple[int, ...]  # examples in each part
    rng: np.random.Generator


@dataclass(frozen=True)
class Examples:
    """The k examples of a task, by part."""

    parts: Array  # (k,)
    labels: Array  # (k,) strings
    texts: list[Text]  # the sentences, or first and second sentences of pairs
    intact: list[Array]  # pool sentences that are used unaltered, any number of arrays

    @property
    def counts(self) -> Array:
        """Number of examples of each part."""
        return np.bincount(self.parts, minlength=len(PARTS))


def sampled(pool: Pool, sentences: Array, classes: Array, names: Array, strata: Array | None = None) -> Examples:
    """A class-balanced sample of the candidate ``sentences`` (k,) with these classes (k,), unaltered.

    ``names`` are the labels of the classes, which are balanced within ``strata`` (k,).
    """
    parts = pool.parts[sentences]
    keep = common(classes, parts)
    sentences, classes, parts = sentences[keep], classes[keep], parts[keep]
    names, classes = names[np.unique(classes)], np.unique(classes, return_inverse=True)[1]
    strata = np.zeros(len(classes), dtype=np.int64) if strata is None else strata[keep]
    return intact(pool, sentences, names[classes], sampling.balance(classes, strata, parts, pool.most, pool.rng))


def common(classes: Array, parts: Array) -> Array:
    """Whether each example's class has enough examples in every part; (k,) bool."""
    n_classes = int(classes.max(initial=0)) + 1
    inside = parts >= 0
    counts = np.bincount(parts[inside] * n_classes + classes[inside], minlength=len(PARTS) * n_classes)
    return (counts.reshape(len(PARTS), n_classes).min(axis=0) >= LEAST_OF_CLASS)[classes]


def intact(pool: Pool, sentences: Array, names: Array, taken: Array) -> Examples:
    """The selected examples, unaltered."""
    chosen = sentences[taken]
    return Examples(pool.parts[chosen], names[taken], [Text.of(pool.parses, chosen)], [chosen])


def strings(*names: object) -> Array:
    """Labels as an array."""
    return np.array([str(name) for name in names], dtype=object)


def sentence_length(pool: Pool) -> Examples:
    """SentLen: the length class of the sentence, of six."""
    bins = np.searchsorted(LENGTH_BINS, pool.parses.lengths, side="right")
    return sampled(pool, np.arange(len(bins)), bins, strings(*range(6)))


def word_content(pool: Pool) -> Examples:
    """WC: which of 1,000 mid-frequency words the sentence contains; it has exactly one of them, once."""
    parses = pool.parses
    n_words = min(CONTENT_WORDS, len(parses) // SENTENCES_PER_WORD)
    words = parses.words.mapped([name.lower() for name in parses.words.names])
    counts = np.bincount(words.ids, minlength=len(words.names))
    by_rank = np.argsort(-counts, kind="stable")[2 * n_words :]
    long = np.array([len(name) >= 4 for name in words.names])
    hits = np.flatnonzero(np.isin(words.ids, by_rank[long[by_rank]][:n_words]))
    alone = np.bincount(parses.sentences[hits], minlength=len(parses)) == 1
    hits = hits[alone[parses.sentences[hits]]]
    return sampled(pool, parses.sentences[hits], words.ids[hits], words.names)


def tree_depth(pool: Pool) -> Examples:
    """TreeDepth: depth of the constituency tree, 5 to 12, sampled to be nearly uncorrelated with length."""
    depths, lengths = labels.tree_depths(pool.parses), pool.parses.lengths
    sentences = np.flatnonzero((depths >= DEPTHS.start) & (depths < DEPTHS.stop) & (pool.parts >= 0))
    sentences = sentences[common(depths[sentences], pool.parts[sentences])]
    if not len(sentences):
        return sampled(pool, sentences, depths[sentences], strings())
    parts, shape = pool.parts[sentences], (len(PARTS), int(lengths.max()) + 1, DEPTHS.stop)
    cells = np.ravel_multi_index((parts, lengths[sentences], depths[sentences]), shape)
    available = np.bincount(cells, minlength=math.prod(shape)).reshape(shape)
    quotas = [sampling.decorrelate(each, most) for each, most in zip(available, pool.most, strict=True)]
    taken = sampling.draw(cells, np.ravel(quotas), parts, pool.rng)
    return intact(pool, sentences, depths[sentences].astype(str).astype(object), taken)


def top_constituents(pool: Pool) -> Examples:
    """TopConst: which of the 19 most frequent constituent sequences is below the top clause, or OTHER.

    Uses only sequences that end with the tag of the full stop and contain no other punctuation or quotes.
    """
    sequences = labels.top_constituents(pool.parses)
    paths = [name.split("_") for name in sequences.names]
    plain = np.array([last == "." and all(label[:1].isalpha() for label in inner) for *inner, last in paths])
    sentences = np.flatnonzero(plain[sequences.ids] & (pool.parts >= 0))
    ids, parts = sequences.ids[sentences], pool.parts[sentences]
    counts = np.bincount(ids, minlength=len(sequences.names))
    frequent = np.argsort(-counts, kind="stable")[:SEQUENCES]
    classes = np.where(np.isin(ids, frequent) & common(ids, parts), ids, len(sequences.names))
    return sampled(pool, sentences, classes, np.append(sequences.names, ["OTHER"]))


def changed_or_not(
    pool: Pool, sentences: Array, names: Array, strata: Callable[[Array], Array] | None = None
) -> tuple[Array, Array, Array]:
    """Split candidates (k,) at random into unaltered ones, class 0, and ones to change, class 1, and balance them.

    ``names`` are the labels of both classes; ``strata`` maps the classes (k,) to strata (k,) within which they are
    balanced. Returns the selected candidates, whether each is to be changed, and their labels.
    """
    classes = pool.rng.integers(2, size=len(sentences))
    groups = strata(classes) if strata else np.zeros(len(sentences), dtype=np.int64)
    taken = sampling.balance(classes, groups, pool.parts[sentences], pool.most, pool.rng)
    return taken, classes[taken] == 1, names[classes[taken]]


def bigram_shift(pool: Pool) -> Examples:
    """BShift: whether two adjacent words were swapped, I, or not, O."""
    bigrams = changes.pick_bigrams(pool.parses, pool.rng)
    found = np.flatnonzero(bigrams >= 0)
    taken, changed, names = changed_or_not(pool, found, strings("O", "I"))
    chosen = found[taken]
    first = bigrams[chosen[changed]]
    second = first + 1
    text = Text.of(pool.parses, chosen, np.append(first, second), np.append(second, first))
    return Examples(pool.parts[chosen], names, [text], [chosen[~changed]])


def odd_man_out(pool: Pool) -> Examples:
    """SOMO: whether a noun or verb was replaced, C, or not, O."""
    scale = min(1.0, int((pool.parts >= 0).sum()) / PUBLISHED_SIZE)
    least, most = (frequency * scale for frequency in ODD_FREQUENCY)
    old, new = changes.replace_words(pool.parses, pool.parts, least, most, pool.rng)
    found = np.flatnonzero(new >= 0)
    taken, changed, names = changed_or_not(pool, found, strings("O", "C"))
    chosen = found[taken]
    text = Text.of(pool.parses, chosen, old[chosen[changed]], new[chosen[changed]])
    return Examples(pool.parts[chosen], names, [text], [chosen[~changed]])


def coordination_inversion(pool: Pool) -> Examples:
    """CoordInv: whether two coordinated clauses were inverted, I, or not, O; balanced by which clause is longer."""
    found = changes.coordinations(pool.parses)
    taken, changed, names = changed_or_not(
        pool, found.sentences, strings("O", "I"), lambda classes: 1 + found.longer * (1 - 2 * classes)
    )
    chosen = changes.Coordinations(*(each[taken] for each in found))
    text = changes.invert(pool.parses, chosen, changed)
    return Examples(pool.parts[chosen.sentences], names, [text], [chosen.sentences[~changed]])


def target_words(pool: Pool, words: Array, classes: dict[str, tuple[str, ...]]) -> Examples:
    """A binary task on one target word of each sentence, (B,), -1 for none; each class is a set of tags.

    Target words have medium frequency, and each is a target in one part only.
    """
    parses = pool.parses
    sentences = np.flatnonzero((words >= 0) & (pool.parts >= 0))
    counts = np.bincount(parses.words.ids, minlength=len(parses.words.names))
    least, most = (frequency * min(1.0, len(sentences) / PUBLISHED_SIZE) for frequency in TARGET_FREQUENCY)
    frequency = counts[parses.words.ids[words[sentences]]]
    sentences = sentences[(frequency >= least) & (frequency <= most)]
    sentences = sentences[sampling.deal_words(parses.words.ids[words[sentences]], pool.parts[sentences], pool.rng)]
    second = list(classes.values())[1]
    return sampled(pool, sentences, parses.tags.isin(*second)[words[sentences]].astype(np.int64), strings(*classes))


def tense(pool: Pool) -> Examples:
    """Tense: whether the main verb is in the present or past tense."""
    parses = pool.parses
    main_verbs = np.where(parses.tags.isin("VBP", "VBZ", "VBD")[parses.roots], parses.roots, labels.NO_WORD)
    return target_words(pool, main_verbs, {"PRES": ("VBP", "VBZ"), "PAST": ("VBD",)})


def subject_number(pool: Pool) -> Examples:
    """SubjNum: whether the subject of the main clause is singular or plural."""
    found = labels.arguments(pool.parses, "nsubj", "nsubj:pass")
    return target_words(pool, found, {"NN": ("NN",), "NNS": ("NNS",)})


def object_number(pool: Pool) -> Examples:
    """ObjNum: whether the direct object of the main clause is singular or plural."""
    return target_words(pool, labels.arguments(pool.parses, "obj"), {"NN": ("NN",), "NNS": ("NNS",)})


def head_distance(pool: Pool) -> Examples:
    """HeadDist: whether words are near to or far from their heads, relative to sentences of the same length."""
    lengths = pool.parses.lengths
    thirds = labels.thirds_by_length(labels.mean_head_distances(pool.parses), lengths)
    return sampled(pool, np.arange(len(lengths)), thirds, strings("NEAR", "MIDDLE", "FAR"), lengths)


def root_position(pool: Pool) -> Examples:
    """RootPos: which quarter of the sentence contains its root; balanced within each length."""
    lengths = pool.parses.lengths
    quarters = 4 * pool.parses.positions[pool.parses.roots] // lengths
    return sampled(pool, np.arange(len(quarters)), quarters, strings(0, 1, 2, 3), lengths)


def attachment(pool: Pool) -> Examples:
    """PPAttach: whether the PP after the object attaches to it, N, or to the verb, V; balanced by preposition."""
    words, to_noun = labels.prepositional_phrases(pool.parses)
    prepositions = pool.parses.words.mapped([name.lower() for name in pool.parses.words.names]).ids[words]
    return sampled(pool, pool.parses.sentences[words], to_noun.astype(np.int64), strings("V", "N"), prepositions)


def tree_edit(pool: Pool) -> Examples:
    """TreeEdit: whether, of eight sentences, the second has the tree nearest to the first's or the farthest from it."""
    drawn = [pool.rng.permutation(np.flatnonzero(pool.parts == part))[:most] for part, most in enumerate(pool.most)]
    anchors = np.concatenate(drawn)
    near, far = changes.tree_neighbours(pool.parses, pool.parts, anchors, pool.rng)
    anchors, near, far = (each[near >= 0] for each in (anchors, near, far))
    taken, is_far, names = changed_or_not(pool, anchors, strings("NEAR", "FAR"), lambda _: pool.parses.lengths[anchors])
    pairs = [anchors[taken], np.where(is_far, far[taken], near[taken])]
    return Examples(pool.parts[pairs[0]], names, [Text.of(pool.parses, each) for each in pairs], pairs)


TAGS, DEPENDENCY, CONSTITUENCY = "tags", "dependency", "constituency"
# What makes a task's examples, and the annotations that it needs, by their names in ``lacking``. The keys are the names
# of ``eval --tasks`` and ``PROBING``; published tasks have the names of SentEval's code.
TASKS: dict[str, tuple[Callable[[Pool], Examples], set[str]]] = {
    "Length": (sentence_length, set()),
    "WordContent": (word_content, set()),
    "Depth": (tree_depth, {CONSTITUENCY}),
    "TopConstituents": (top_constituents, {TAGS, CONSTITUENCY}),
    "BigramShift": (bigram_shift, set()),
    "OddManOut": (odd_man_out, {TAGS}),
    "CoordinationInversion": (coordination_inversion, {TAGS, CONSTITUENCY}),
    "Tense": (tense, {TAGS, DEPENDENCY}),
    "SubjNumber": (subject_number, {TAGS, DEPENDENCY}),
    "ObjNumber": (object_number, {TAGS, DEPENDENCY}),
    "HeadDistance": (head_distance, {DEPENDENCY}),
    "RootPosition": (root_position, {DEPENDENCY}),
    "PPAttachment": (attachment, {TAGS, DEPENDENCY}),
    "TreeEdit": (tree_edit, {CONSTITUENCY}),
}
SHORTEST, LONGEST = 5, 28  # numbers of words, as published
LEAST_OF_PART = 50
MANIFEST, INTACT = "probing.json", "intact.parsed"


def make_tasks(
    corpus: ParsedCorpus, folder: Path, *, size: int, sentences: int, seed: int, progress: Callable[[str], None]
) -> dict[str, Any]:
    """Write every task that the corpus has enough examples for into a new or empty folder; InputError if there is none.

    ``probing.json`` describes the tasks, also returned; ``intact.parsed`` has the unaltered sentences with their trees.
    A task has at most ``size`` training examples, and a tenth of it in each other part; at most ``sentences`` are read,
    from randomly drawn shards. InputError too if a size is too small, or the folder exists.
    """
    if size < 10 * LEAST_OF_PART:
        raise InputError(f"size = {size}: give at least {10 * LEAST_OF_PART}, as the test part has a tenth of it")
    if sentences < 1:
        raise InputError(f"sentences = {sentences}: give at least 1")
    with new_folder(folder) as unfinished:
        progress("reading")
        parses = Parses.read(corpus, SHORTEST, LONGEST, sentences, np.random.default_rng(seed))
        if not len(parses):
            raise InputError(f"{corpus.path}: no sentences of {SHORTEST} to {LONGEST} words: give a larger corpus")
        rng = np.random.default_rng(seed)
        is_first = parses.first_occurrences(LONGEST, rng)
        parts = np.where(is_first, sampling.deal_documents(parses.documents, rng), LEFT_OUT)
        tasks: dict[str, dict[str, Any]] = {}
        left_out, rows = {}, []
        for number, (name, file) in enumerate(PROBING.items()):
            progress(name)
            # Each task has its own random numbers, so that it does not depend on the others.
            pool = Pool(parses, parts, (size, size // 10, size // 10), np.random.default_rng([seed, number]))
            examples, reason = make_task(*TASKS[name], pool)
            if examples is None:
                left_out[name] = reason
                continue
            write_examples(unfinished / file, examples)
            rows += [parses.rows[chosen] for chosen in examples.intact]
            per_part = dict(zip(PARTS, examples.counts.tolist(), strict=True))
            tasks[name] = {"file": file, "examples": per_part, "labels": sorted(set(examples.labels))}
        if not tasks:
            few = ": ".join(next(iter(left_out.items())))
            raise InputError(f"{corpus.path}: too small for any task ({few}): give a larger corpus")
        progress("trees")
        write_subset(corpus, np.unique(np.concatenate(rows)), unfinished / INTACT)
        counts = np.bincount(parts[parts >= 0], minlength=len(PARTS)).tolist()
        described = {
            "format": "structviews probing tasks",
            "corpus": {"sha256": corpus.fingerprint, "parser": corpus.parser},
            "size": size,
            "seed": seed,
            "sentences": dict(zip(PARTS, counts, strict=True)),
            "documents": len(np.unique(parses.documents)),
            "tasks": tasks,
            "left_out": left_out,
        }
        write_json(unfinished / MANIFEST, described)
        return described


def make_task(make: Callable[[Pool], Examples], needs: set[str], pool: Pool) -> tuple[Examples | None, str]:
    """The examples of a task, or None and why it has none."""
    lacking = [name for name in pool.parses.lacking if name in needs]
    if lacking:
        return None, f"the corpus has no {lacking[0]}{'' if lacking[0] == 'tags' else ' trees'}"
    examples = make(pool)
    counts = examples.counts
    if counts.min() < LEAST_OF_PART or len(set(examples.labels)) < 2:
        few = " / ".join(f"{count:,}" for count in counts)
        return None, f"{few} examples; every part needs {LEAST_OF_PART}"
    return examples, ""


def write_examples(path: Path, examples: Examples) -> None:
    """Write one tab-separated line ``part, label, sentence`` per example; pairs have two sentences."""

    def joined(text: Text) -> pa.Array:
        words = pa.array(text.words.names, pa.string()).take(pa.array(text.words.ids))
        offsets = pa.array(np.concatenate([[0], np.cumsum(text.lengths)]), pa.int32())
        return pc.binary_join(pa.ListArray.from_arrays(offsets, words), " ")

    columns = [pa.array([PARTS[part] for part in examples.parts]), pa.array(examples.labels, pa.string())]
    lines = pc.binary_join_element_wise(*columns, *map(joined, examples.texts), "\t").to_pylist()
    write_whole(path, ("\n".join(lines) + "\n").encode())
