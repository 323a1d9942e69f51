"""Sources of a parsed corpus: a text and a parser, or treebank files, which already have trees."""

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from structviews.corpus.layout import MODELS, SURE
from structviews.corpus.sentence import ParsedSentence
from structviews.errors import InputError
from structviews.parsing import text, tokenising
from structviews.parsing.backends import HEADS, TREEBANK
from structviews.parsing.binarise import headed
from structviews.parsing.parser import CONSTITUENCY, DEFAULTS, Fault, Options, Parser, Tokeniser, Unparsed, of_fit
from structviews.parsing.specification import Factories, check_gives, factories, load, with_constituents
from structviews.parsing.treebank import TreebankSentence, check_files, derived_files, is_conllu, read_treebank

T = TypeVar("T")
STDIN = "-"
TREEBANK_SUFFIXES = (".conllu", ".ptb", ".mrg")
LAYOUT_NOTES: dict[text.Layout, str] = {
    "lines": "this looks like one sentence per line; if it is running text, add --format prose",
    "prose": "this looks like running text (two blank lines end a document); if it is not, add --format lines",
}
# Parsers that parse nothing.
TREES_ALONE = TREEBANK, f"{TREEBANK}+{HEADS}"
# The corpus stores node numbers in 16 bits, and a binary tree over n words has 2n - 1 nodes.
MOST_TOKENS = 2**14


@dataclass(frozen=True)
class ParseText:
    """Tokenises and parses the raw sentences of a shard; it is sent to worker processes.

    What is not ``tokenised``, the parser tokenises if it can, and the language's rules otherwise. See ``open_source``.
    """

    parser: str
    options: Options = DEFAULTS
    tokenised: bool = False
    max_tokens: int = MOST_TOKENS
    strict: bool = False
    factories: Factories = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "factories", factories(self.parser))

    def __call__(self, sentences: Sequence[text.RawSentence]) -> list[ParsedSentence | Unparsed]:
        """The sentences' trees in order, or why there are none."""
        texts = [text.unfit(sentence.text) or sentence.text for sentence in sentences]
        with one_thread():
            words = of_fit(self._tokenised, texts)
            words = [each if isinstance(each, Unparsed) else limited(each, each, self.max_tokens) for each in words]
            parsed = of_fit(self._parser.parse, words)
        for sentence, tree in zip(sentences, parsed, strict=True):
            if self.strict and isinstance(tree, Fault):
                raise InputError(
                    f"line {sentence.line}, {sentence.text[:60]!r}: {tree.reason}: leave out --strict to skip these"
                )
        return parsed

    @property
    def _parser(self) -> Parser:
        return loaded(self.parser, self.options, self.factories)

    def _tokenised(self, texts: Sequence[str]) -> Sequence[tuple[str, ...] | Unparsed]:
        if self.tokenised:
            return [tuple(each.split()) for each in texts]
        parser = self._parser
        if isinstance(parser, Tokeniser):
            return parser.tokenise(texts)
        return tokenising.tokenise_all(texts, self.options.language)

    def describe(self) -> dict[str, Any]:
        """The manifest's entries ``parser`` and ``tokeniser``."""
        parser = self._parser
        described = parser.describe()
        if self.tokenised:
            tokeniser = {"name": "whitespace"}
        elif isinstance(parser, Tokeniser):
            tokeniser = {"name": described["name"].partition("+")[0]}
        else:
            rules = tokenising.rules(self.options.language)
            tokeniser = {"name": rules.name, "version": rules.version}
        return {"parser": described, "tokeniser": tokeniser}


@dataclass(frozen=True)
class TakeTrees:
    """As ``ParseText``, with the trees that sentences already have; those longer than ``max_tokens`` are skipped.

    The ``parser`` is ``treebank``; ``treebank+heads``, which makes constituents from the dependencies; or ``treebank+``
    one that adds constituents of its own.
    """

    max_tokens: int
    options: Options = DEFAULTS
    parser: str = TREEBANK
    factories: Factories = field(init=False)  # none if nothing is parsed

    def __post_init__(self) -> None:
        found = () if self.parser in TREES_ALONE else factories(self._added)
        object.__setattr__(self, "factories", found)

    def __call__(self, sentences: Sequence[TreebankSentence]) -> list[ParsedSentence | Unparsed]:
        trees = [sentence.sentence for sentence in sentences]
        kept = of_fit(lambda fit: (limited(each, each.tokens, self.max_tokens) for each in fit), trees)
        if self.factories:
            with one_thread():
                return with_constituents(kept, self._parser)
        return kept if self.parser == TREEBANK else of_fit(partial(map, headed), kept)

    @property
    def _added(self) -> str:
        return self.parser.removeprefix(f"{TREEBANK}+")

    @property
    def _parser(self) -> Parser:
        parser = loaded(self._added, replace(self.options, wanted=frozenset({CONSTITUENCY})), self.factories)
        check_gives(CONSTITUENCY, parser, self._added, self.parser)
        return parser

    def describe(self) -> dict[str, Any]:
        added = {CONSTITUENCY: self._parser.describe()} if self.factories else {}
        parser = {"name": self.parser, "language": self.options.language, **added}
        return {"parser": parser, "tokeniser": {"name": TREEBANK}}


Work = ParseText | TakeTrees


def limited(sentence: T, tokens: Sequence[str], max_tokens: int) -> T | Unparsed:
    """The sentence, or the reason why it is skipped if it has more than ``max_tokens``."""
    return Unparsed(f"more than {max_tokens} tokens") if len(tokens) > max_tokens else sentence


# A parser is loaded once per process.
loaded = cache(load)


@contextmanager
def one_thread() -> Iterator[None]:
    """Restrict PyTorch, where it is loaded, to one thread within the block.

    The number of threads changes the order of summation, and results must not depend on the number of workers.
    """
    with ExitStack() as after:
        if torch := sys.modules.get("torch"):
            after.callback(torch.set_num_threads, torch.get_num_threads())
            torch.set_num_threads(1)
        yield


def open_source(
    paths: Sequence[str],
    *,
    parser: str,
    layout: text.Layout | None,
    tokenised: bool,
    max_tokens: int,
    options: Options = DEFAULTS,
    strict: bool = False,
) -> "Source":
    """Open the source that the user names; InputError if files, parser and settings are invalid or incompatible.

    The ``paths`` are one text, ``-`` for standard input; or, for the parser ``treebank``, files with trees: one in
    ``.conllu``, one of brackets, or both; where constituents are added, one in ``.conllu``, see ``TakeTrees``. The
    ``layout`` is guessed if None; the words of a ``tokenised`` text are separated by white space. Sentences longer than
    ``max_tokens`` are skipped, and, unless it is ``strict``, those that the parser fails on.
    """
    if not 1 <= max_tokens <= MOST_TOKENS:
        raise InputError(f"--max-tokens {max_tokens}: give a number from 1 to {MOST_TOKENS}")
    first, *added = parser.split("+")
    if TREEBANK in added or (first == TREEBANK and len(added) > 1):
        raise InputError(f"--parser {parser}: give {TREEBANK} alone, or {TREEBANK}+ what adds constituents")
    if first == TREEBANK:
        work = TakeTrees(max_tokens, options, parser)
        models, device = (options.models, options.device) if work.factories else (None, "")
        if layout or tokenised or strict or options != Options(options.language, models, device):
            raise InputError(
                "--format, --tokenised, --strict and --confidence only apply to texts, --models and --device to "
                f"parsers: leave them out with --parser {parser}"
            )
        files = [Path(path) for path in paths]
        if added and not all(map(is_conllu, files)):
            raise InputError(f"--parser {parser}: adds constituents to a .conllu file: give no other")
        return TreebankSource(files, work)
    if len(paths) != 1:
        raise InputError(f"{len(paths)} sources ({', '.join(paths)}): give one text per corpus")
    return TextSource(paths[0], ParseText(parser, options, tokenised, max_tokens, strict), layout)


def parse_sentence(sentence: str, *, parser: str, options: Options, tokenised: bool) -> ParsedSentence:
    """Parse one sentence; see ``open_source`` for the arguments.

    Raises InputError if the parser does not exist or cannot parse the sentence.
    """
    if TREEBANK in parser.split("+"):
        raise InputError(f"--parser {parser}: a treebank is read from files: choose a parser")
    work = ParseText(parser, options, tokenised)
    raw = sentence if tokenised else text.repair(sentence, options.language)[0]
    (tree,) = work([text.RawSentence(0, 0, 1, raw)])
    if isinstance(tree, Unparsed):
        raise InputError(f"{sentence[:60]!r}: not parsed: {tree.reason}")
    return tree


def output_name(source: str) -> str:
    """The default name of a source's corpus, in the current folder."""
    if source == STDIN:
        return "corpus.parsed"
    name = Path(source).name
    for suffix in (*text.COMPRESSED, ".txt", *TREEBANK_SUFFIXES):
        name = name.removesuffix(suffix)
    return f"{name}.parsed"


def spooled_stdin() -> Any:
    """Copy standard input to a temporary file, which is deleted when it is closed."""
    try:
        spool = tempfile.NamedTemporaryFile(prefix="structviews-", suffix=".txt")  # noqa: SIM115 - outlives this call
        shutil.copyfileobj(sys.stdin.buffer, spool)
        spool.flush()
    except OSError as error:
        folder = tempfile.gettempdir()
        raise InputError(
            f"standard input cannot be stored in {folder} ({error.strerror}): set TMPDIR to a folder with more space"
        ) from None
    return spool


class TextSource:
    """The sentences of a text, as a ``Source``; see ``open_source`` for the layout and errors."""

    def __init__(self, source: str, work: ParseText, layout: text.Layout | None = None) -> None:
        self.work = work
        if source.endswith(TREEBANK_SUFFIXES):
            raise InputError(f"{source} is a treebank file: add --parser {TREEBANK}")
        # Standard input is copied to a file because it is read more than once; the file is deleted with this object.
        self._spool = spooled_stdin() if source == STDIN else None
        self.path = Path(self._spool.name if self._spool else source)
        self.files = [text.survey(self.path, "standard input" if source == STDIN else source)]
        self.layout = layout or self.files[0].guess
        self.note = "" if layout else LAYOUT_NOTES[self.layout]
        self.repairs = text.Repairs(work.options.language)
        if self.layout == "prose" and not work.tokenised:
            tokenising.rules(work.options.language)

    def describe(self) -> dict[str, Any]:
        models, work = self.work.options.models, self.work
        return {
            "sources": [file.describe() for file in self.files],
            "settings": {"format": self.layout, "tokenised": work.tokenised, "max_tokens": work.max_tokens},
            # Where a run looks for its parser; the parser's description shows whether it is the same one.
            **({MODELS: str(models.resolve())} if models else {}),
            **({"kept": [SURE]} if work.options.confidence else {}),
        }

    def sentences(self) -> Iterator[text.RawSentence]:
        language, tokenised = self.work.options.language, self.work.tokenised
        self.repairs = text.Repairs(language)
        return text.read_sentences(self.path, self.layout, repairs=self.repairs, tokenised=tokenised, language=language)


class TreebankSource:
    """Treebank files with their own tokens and trees, as a ``Source``.

    The text of the files ``kept`` is kept: ``conllu``, ``ptb``, unless `corpus export` made them from trees alone.
    """

    def __init__(self, paths: Sequence[Path], work: TakeTrees) -> None:
        check_files(paths)
        # If there is a CoNLL-U file, it determines the sentences' locations.
        self.paths = sorted(paths, key=lambda path: not is_conllu(path))
        self.work = work
        self.note, self.repairs = "", text.Repairs(work.options.language)  # there are none
        self.files = [text.survey(path, str(path)) for path in self.paths]
        derived = derived_files(self.paths[0]) if is_conllu(self.paths[0]) else []
        files = ["conllu" if is_conllu(path) else "ptb" for path in self.paths]
        self.kept = [name for name in files if name not in derived]

    def describe(self) -> dict[str, Any]:
        return {
            "sources": [file.describe() for file in self.files],
            "settings": {"max_tokens": self.work.max_tokens},
            **({"kept": self.kept} if self.kept else {}),
        }

    def sentences(self) -> Iterator[TreebankSentence]:
        return read_treebank(self.paths)


class Source(Protocol):
    """What a corpus is made from: sentences in order, each with its place, and the ``work`` that parses them.

    ``note`` tells the user what was guessed, and ``repairs`` are those of the sentences that were read last. It is
    described by the manifest's entries about its files and how they are read, without those of the work. Each sentence
    has ``document``, ``position`` and ``line``.
    """

    note: str
    repairs: text.Repairs
    files: list[text.Survey]

    @property
    def work(self) -> Work: ...
    def describe(self) -> dict[str, Any]: ...
    def sentences(self) -> Iterator[Any]: ...
