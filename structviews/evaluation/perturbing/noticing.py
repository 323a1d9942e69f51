"""How far the vectors of altered sentences are from those of the originals, for each view of a run.

Sentences of a parsed English corpus that the rules of ``perturbations`` fit are drawn and altered; both are encoded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.encoding.embedder import Embedder
from structviews.encoding.representation import normalised
from structviews.errors import InputError, unknown
from structviews.evaluation.parses import Parses
from structviews.evaluation.perturbing import altering
from structviews.evaluation.perturbing.perturbations import CONTRASTS, KINDS, Clause, Perturbation
from structviews.evaluation.scores import intervals
from structviews.evaluation.senteval.tasks.reading import Tokens
from structviews.runtime.arrays import Array
from structviews.runtime.terminal import OnProgress, Table, number_table

READ = 200_000  # most sentences that are read, from shards drawn at random
WHOLE = "all views"  # the name of the vector that ``encode`` returns, beside those of the views
# Sums in another order make equal bags differ a little: distances below this are 0, and those as close are equal.
ROUNDING = 1e-6
NOTES = (
    "+ keeps the meaning, - changes it: the cosine distance of an altered sentence to its original, as a percentage of "
    "the mean distance to the other originals of its kind: 0 = no difference, 100 = as far as another sentence",
    "A nearer than B: the percentage of sentences with both forms whose form A is nearer to the original; "
    "equally near counts as half",
    "with the 95 % interval of a bootstrap over documents",
)
NOTES_OF_TWO = (
    "A - B with the 95 % interval of a paired bootstrap over documents, and its two-sided p, at least 0.001; "
    "Holm: p corrected for all rows, bold below 0.05",
    intervals.FIXED_MODELS,
)


@dataclass(frozen=True)
class Sample:
    """n sentences that a rule fits, or both rules of a contrast, in random order."""

    name: str  # of the perturbation, or what the contrast asks
    documents: Array
    originals: list[Tokens]
    altered: list[list[Tokens]]  # for each rule, what it makes of each sentence


def chosen_kinds(names: Sequence[str]) -> list[Perturbation]:
    """The perturbations with these names, in the order of the table; all of them for the single name ``all``."""
    if list(names) == ["all"]:
        return list(KINDS.values())
    for name in names:
        if name not in KINDS:
            raise unknown("perturbation", name, [*KINDS, "all"])
    if not names:
        raise InputError(f"--by: empty: choose from {', '.join(KINDS)}, or all")
    return [kind for name, kind in KINDS.items() if name in names]


def with_contrasts(kinds: Sequence[Perturbation]) -> dict[str, tuple[Perturbation, ...]]:
    """Each kind alone, then the pairs of ``CONTRASTS`` of which both are among the kinds, by name."""
    pairs = [(KINDS[keeping], KINDS[changing]) for keeping, changing in CONTRASTS]
    groups = [*((kind,) for kind in kinds), *(pair for pair in pairs if set(pair) <= set(kinds))]
    return {" nearer than ".join(kind.name for kind in group): group for group in groups}


def draw(corpus: ParsedCorpus, kinds: Sequence[Perturbation], most: int, seed: int) -> list[Sample]:
    """At most ``most`` distinct sentences for each kind and each contrast, which its rules fit and change.

    Those with fewer than two are left out; none depends on which others are asked for. InputError if the corpus is of
    another language, lacks trees or tags, or has no two sentences that a rule fits.
    """
    altering.check_english(corpus)
    rng = np.random.default_rng(seed)
    parses = Parses.read(corpus, altering.SHORTEST, altering.LONGEST, READ, rng)
    altering.check_tags(corpus, parses)
    first = parses.first_occurrences(altering.LONGEST, np.random.default_rng(0))
    order = rng.permutation(np.flatnonzero(altering.are_plain(parses) & first))
    groups, spelling = with_contrasts(kinds), altering.spelling_of([parses])
    # The names are part of the seed, so that a group's random numbers do not depend on the other groups.
    generators = [np.random.default_rng([seed, *" ".join(k.name for k in group).encode()]) for group in groups.values()]
    found: list[dict[int, list[Tokens]]] = [{} for _ in groups]
    for index in order.tolist():
        clause = Clause(parses.sentence(index), spelling)
        for group, random, forms in zip(groups.values(), generators, found, strict=True):
            if len(forms) < most:
                made = [words for kind in group if (words := kind.form_of(clause, random))]
                if len(made) == len(group):
                    forms[index] = [clause.sentence.tokens, *made]
        if min(map(len, found)) == most:
            break
    samples = []
    for name, forms in zip(groups, found, strict=True):
        if len(forms) > 1:
            originals, *altered = map(list, zip(*forms.values(), strict=True))
            samples.append(Sample(name, parses.documents[list(forms)], originals, altered))
    if not samples:
        names = ", ".join(kind.name for kind in kinds)
        remedy = "give a larger corpus, or other kinds"
        raise InputError(f"{corpus.path}: no two sentences that can be altered by {names}: {remedy}")
    return samples


@dataclass(frozen=True)
class Row:
    """One measure of one view, or of ``WHOLE``, for one run or two."""

    sample: str
    view: str
    found: dict[int, intervals.Proportion]  # the mean of each run that has the view, by the run's position
    difference: intervals.Difference | None = None  # paired, if both runs have the view
    adjusted: float | None = None  # its p by Holm's method


def noticed(original: Array, altered: Sequence[Array]) -> Array:
    """How far vectors (n, d) of altered sentences are from those of their originals, n at least 2, by cosine; (n,).

    Of one form, its distances as shares of the mean distance of the original to the other originals. Of a contrast's
    two, 1 where the first is nearer, 0 where the second is, a half where both are equally near. A vector of zeros is at
    distance 1 from all others.
    """
    unit, *forms = (normalised(vectors.astype(np.float64)) for vectors in (original, *altered))
    distances = [1 - np.einsum("nd,nd->n", unit, form) for form in forms]
    distances = [np.where(each <= ROUNDING, 0, each) for each in distances]
    if len(distances) == 2:
        gaps = distances[1] - distances[0]
        return np.where(np.abs(gaps) <= ROUNDING, 0.5, (gaps > 0).astype(float))
    own = np.einsum("nd,nd->n", unit, unit)
    others = 1 - (unit @ unit.sum(axis=0) - own) / (len(unit) - 1)
    return distances[0] / np.maximum(others, ROUNDING)


def notice(embedder: Embedder, samples: Sequence[Sample], progress: OnProgress) -> list[dict[str, Array]]:
    """What ``noticed`` says of each sample, two sentences or more, by view; first that of ``WHOLE``.

    Originals and altered sentences are both given as words, so that the run's parser makes the trees of both.
    """
    texts = [[sample.originals, *sample.altered] for sample in samples]
    total, done, found = sum(len(form) for forms in texts for form in forms), 0, []

    def show(now: int, _: int) -> None:
        progress(done + now, total)

    for forms in texts:
        sentences = [words for form in forms for words in form]
        views = embedder.encode_views(sentences, show)
        named = {WHOLE: embedder.joined(views), **dict(zip(embedder.view_names, views, strict=True))}
        by_form = {name: np.split(vectors, len(forms)) for name, vectors in named.items()}
        found.append({name: noticed(original, altered) for name, (original, *altered) in by_form.items()})
        done += len(sentences)
    return found


def rows_of_runs(samples: Sequence[Sample], runs: Sequence[Sequence[Mapping[str, Array]]]) -> list[Row]:
    """The table of one run, or of two with their differences, from what ``notice`` returns for each.

    If all sentences of a sample are of one document, the bootstrap draws sentences.
    """
    views = list(dict.fromkeys(view for run in runs for view in run[0]))
    rows = []
    for number, sample in enumerate(samples):
        documents = sample.documents if len(np.unique(sample.documents)) > 1 else np.arange(len(sample.documents))
        for view in views:
            values = {k: run[number][view] for k, run in enumerate(runs) if view in run[number]}
            found = {k: intervals.proportion(each, documents) for k, each in values.items()}
            difference = intervals.mean_difference(values[0], values[1], documents) if len(values) == 2 else None
            rows.append(Row(sample.name, view, found, difference))
    adjusted = iter(intervals.holm([row.difference.p for row in rows if row.difference]))
    return [replace(row, adjusted=next(adjusted)) if row.difference else row for row in rows]


def as_rich(rows: Sequence[Row], two: bool) -> Table:
    """The table: of one run with a column for each view, of two with a row for each view."""
    groups = [(name, list(group)) for name, group in groupby(rows, lambda row: row.sample)]
    if not two:
        views = dict.fromkeys(row.view for row in rows)
        table = number_table(["perturbation"], ["n", *views], show_lines=True)
        for name, group in groups:
            cells = [str(row.found[0]).replace(" ", "\n", 1) for row in group]  # a value over its interval
            table.add_row(_signed(name), f"{group[0].found[0].count:,}", *cells)
        return table
    table = number_table(["perturbation"], ["n", "view", "A", "B", "A - B", "95 % interval", "p", "Holm"])
    table.columns[2].justify = "left"
    for name, group in groups:
        for i, row in enumerate(group):
            head = ("", "") if i else (_signed(name), f"{next(iter(row.found.values())).count:,}")
            values = [f"{100 * row.found[k].value:.1f}" if k in row.found else "-" for k in (0, 1)]
            tested = row.difference.cells(100, row.adjusted) if row.difference and row.adjusted is not None else ()
            table.add_row(*head, row.view, *values, *tested)
        table.add_section()
    return table


def _signed(name: str) -> str:
    """A kind with the sign of what it does to the meaning; a contrast as it is."""
    return f"{'+' if KINDS[name].keeps else '-'} {name}" if name in KINDS else name


def examples(sample: Sample, most: int) -> list[str]:
    """Lines that show a kind and its first sentences, each with its altered form."""
    lines = [_signed(sample.name)]
    for original, *altered in list(zip(sample.originals, *sample.altered, strict=True))[:most]:
        lines += [f"  {' '.join(original)}", *(f"  -> {' '.join(words)}" for words in altered)]
    return lines
