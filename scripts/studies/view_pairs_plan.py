"""The plan of the study of view pairs: its sizes, its rows, its claims."""

from dataclasses import replace

from studies.intervals import MEAN, Claim, above
from studies.rows import BUILTIN, CONTROL, FIXED, INNER, JOINED, MAIN, NOISE, OF, PAIRWISE, SHAPES, Row, Run

# That of the main pair in the table of pairs, at full size; the others are studied on less text.
FULL_SHAPE = "trivial:balanced"
# Labelled attachment scores that noise lowers its trees to.
LEVELS = (86, 75, 60)
SIX = ("seq,seq", "dep,dep", "const,const", "dep,const", "dep,seq", "seq,const")
OTHERS = ("bow,seq", "bow,dep", "avg,const", "dep,const,seq")
CRITICISED, BILINEAR = ("dep,const", "dep,dep", "const,const", "seq,seq"), "bilinear"
SHAPED = ("dep,const", "dep,seq", "seq,const")
STRUCTURES = ("dep", "const", "seq")
SIZED = (MAIN, CONTROL)
BOTH_CHANNELS = "fixed,trained"
BASELINES = ("average", "tfidf", "sif", "up", "all-but-the-top")
UNTRAINED = ("seq,seq", "dep,dep", "const,const", "dep,const")
# Quick-thoughts takes two encoders of the same architecture.
OBJECTIVES = (
    (CONTROL, PAIRWISE),
    (MAIN, PAIRWISE),
    (CONTROL, "quick-thoughts"),
    (CONTROL, "consensus"),
    (MAIN, "consensus"),
)


# Sentences of the study's corpus, and of the other studies'; and the corpora of the study of size.
SENTENCES, STUDIED = 1_000_000, 300_000
CORPORA = (30_000, 100_000, STUDIED, SENTENCES, 3_000_000)
HIDDEN, BATCH, BATCHES = 300, 400, (100, 400, 1600)
# Of the six pairs; of the pairs that the studies compare others with, and of single views. All other rows have one.
SEEDS, STUDIED_SEEDS = 3, 2


class Plan:
    """The rows of every part of the study; a row may be in several.

    Attributes:
        table, size, quality: rows of the table of pairs; the corpora of all sizes; noise in the trees.
        shape: pairs, each before the same on trees that are not syntax.
        batches, objectives, channels: other settings, each after the pair with the usual ones.
        critics: pairs with the inner product, then the same with the bilinear critic.
        single: each structure's view alone, by the structure that it was trained with.
        apart: pairs, each before its structures' views that were trained with their own kind and then joined.
        same: on as much text, each structure with its own kind.
    """

    def __init__(self) -> None:
        own = {views: Row(views, SENTENCES, BATCH) for views in (*SIX, *OTHERS)}
        untrained = [Row(views, 0, 0, baseline="random") for views in UNTRAINED]
        words = [Row("", 0, 0, baseline=kind) for kind in BASELINES]
        studied = {views: replace(row, sentences=STUDIED) for views, row in own.items()}
        main = studied[MAIN]
        noise = [f"{NOISE}{level}" for level in LEVELS]
        self.table = [*own.values(), replace(own[MAIN], trees=FULL_SHAPE), *untrained, *words]
        self.size = [replace(own[views], sentences=n) for views in SIZED for n in CORPORA]
        self.quality = [main, *(replace(main, trees=each) for each in (*noise, *SHAPES))]
        self.shape = [replace(studied[views], trees=each) for views in SHAPED for each in (BUILTIN, *SHAPES)]
        self.batches = [replace(main, batch=batch) for batch in BATCHES]
        self.objectives = [
            replace(studied[views], objective=each, without_component=without)
            for without in (False, True)
            for views, each in OBJECTIVES
        ]
        self.channels = [replace(studied[views], channels=each) for views in SIZED for each in (FIXED, BOTH_CHANNELS)]
        self.critics = [replace(studied[views], critic=each) for each in (INNER, BILINEAR) for views in CRITICISED]
        self.single = [replace(main, views=single(one, other)) for one in STRUCTURES for other in STRUCTURES]
        self.apart = [row for views in SHAPED for row in (studied[views], replace(main, views=apart(views)))]
        self.same = [studied[f"{structure},{structure}"] for structure in STRUCTURES]

    @property
    def rows(self) -> list[Row]:
        """Each row once."""
        choices = (self.batches, self.objectives, self.channels, self.critics)
        studies = (self.size, self.quality, self.shape, *choices, self.single, self.apart, self.same)
        return list(dict.fromkeys([*self.table, *(row for study in studies for row in study)]))

    def seeds(self, row: Row) -> int:
        """How many seeds a row has."""
        if row in self.table[: len(SIX)]:
            return SEEDS
        if row in (*self.single, *self.apart, *self.same, *self.critics):
            return STUDIED_SEEDS
        return 1

    def runs(self) -> list[Run]:
        """In the order in which they are made: the six pairs, then smaller corpora first; what is not trained, last."""
        found = [Run(row, seed) for row in self.rows for seed in range(1, self.seeds(row) + 1)]
        six = self.table[: len(SIX)]

        def order(run: Run) -> tuple[bool, bool, bool, int, int]:
            row = run.row
            return row not in six, row.sentences == CORPORA[-1], not row.trained, row.sentences, run.seed

        return sorted(found, key=order)

    def usual(self, row: Row) -> Row:
        """The same views on as much text, with the settings that the studies change as all other rows have them."""
        return Row(row.views, row.sentences, BATCH, without_component=row.without_component)


def single(view: str, partner: str) -> str:
    """The view of a structure, as trained with another or with its own kind."""
    pair = next(pair for pair in SIX if sorted(pair.split(",")) == sorted((view, partner)))
    return f"{view}{OF}{pair}"


def apart(pair: str) -> str:
    """The views of a pair's structures, each trained with its own kind."""
    return JOINED.join(single(view, view) for view in pair.split(","))


def claims(plan: Plan) -> list[Claim]:
    """All claims, the main one first."""
    own = {row.title: row for row in plan.table}

    def claim(section: str, text: str, better: str | Row, worse: str | Row, score: str = MEAN) -> Claim:
        first, second = (own[each] if isinstance(each, str) else each for each in (better, worse))
        return above(text, first, second, section, score)

    gains = tuple(
        (sign * side, own[views], score)
        for side, score in ((1, "SICK-R"), (-1, "MR"))
        for sign, views in ((1, MAIN), (-1, CONTROL))
    )
    return [
        claim("1, 4.3", "two different structures are better than one sequence seen twice", MAIN, CONTROL),
        claim("4.3", "so are dependencies with sequences", "dep,seq", CONTROL),
        claim("4.3", "so are sequences with constituents", "seq,const", CONTROL),
        claim("1", "two different trees are better than one seen twice: dependencies", MAIN, "dep,dep"),
        claim("1", "two different trees are better than one seen twice: constituents", MAIN, "const,const"),
        claim("table 1", "two kinds of tree are better than dependencies with sequences", MAIN, "dep,seq"),
        claim("table 1", "two kinds of tree are better than sequences with constituents", MAIN, "seq,const"),
        claim("4.3", "structure helps on SICK-R", MAIN, CONTROL, "SICK-R"),
        claim("4.3", "structure helps on SUBJ", MAIN, CONTROL, "SUBJ"),
        Claim("4.3", "structure helps more on SICK-R than on MR", gains),
        *(
            claim("1", f"syntax is better than {SHAPES[row.trees]} trees: {row.views}", plan.usual(row), row)
            for row in plan.shape
            if row.trees in SHAPES
        ),
        claim("", "a third structure helps", "dep,const,seq", MAIN),
        claim("", "training helps", MAIN, f"{MAIN}, untrained"),
        claim("", "training brings more than the words alone", MAIN, "words: sif"),
    ]
