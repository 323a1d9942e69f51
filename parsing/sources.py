"""What a corpus is parsed from: a text and a parser, or treebank files that hold their trees."""

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from structviews.cache import MODELS
from structviews.errors import InputError
from structviews.sentence import ParsedSentence

from . import text
from .backends import DEFAULTS, Options, Parser, Specification, Tokeniser, Unparsed
from .backends.guard import Fault

if TYPE_CHECKING:
    from .backends.treebank import TreebankSentence

STDIN = "-"
TREEBANK = "treebank"
TREEBANK_SUFFIXES = (".conllu", ".ptb", ".mrg")
LAYOUT_NOTES: dict[text.Layout, str] = {
    "lines": "this looks like one sentence a line; if it is running text, add --format prose",
    "prose": "this looks like running text; if it is one sentence a line, add --format lines",
}
# The corpus numbers nodes with 16 bits, and a binary tree over n words has 2n - 1 of them.
MOST_TOKENS = 2**14


class Work(Protocol):
    """Gives the sentences of a shard their trees; it is sent to worker processes."""

    def __hash__(self) -> int: ...

    @property
    def gpus(self) -> int:
        """Number of GPUs that a worker needs."""
        ...

    def __call__(self, sentences: Sequence[Any]) -> list[ParsedSentence | Unparsed]:
        """Trees for sentences of the source, in their order."""
        ...

    def describe(self) -> dict[str, Any]:
        """What the manifest says about ``parser`` and ``tokeniser``."""
        ...


class Source(Protocol):
    """Sentences in order, and how they get their trees.

    Attributes:
        lines: number of lines of the source, to measure progress by.
        note: what was guessed about it, to tell the user; may be empty.
        work: what parses them.
    """

    lines: int
    note: str
    work: Work

    def describe(self) -> dict[str, Any]:
        """What the sentences are read from and how, as the manifest records it, but for what the work says."""
        ...

    def sentences(self) -> Iterator[Any]:
        """The sentences from the first, each with ``document``, ``position`` and ``line``."""
        ...

    def changed(self) -> list[str]:
        """Files whose content is not what ``describe`` says, by name."""
        ...


@dataclass(frozen=True)
class ParseText:
    """Tokenise and parse raw sentences.

    Attributes:
        parser: gives the trees.
        options: what the parser is loaded with.
        tokenised: whether the words stand between white space; else the parser finds them if it is a tokeniser,
            and spaCy's rules if not.
        max_tokens: longer sentences are skipped.
        strict: whether a sentence that the parser fails at is an error; else it is skipped.
    """

    parser: Specification
    options: Options
    tokenised: bool
    max_tokens: int
    strict: bool

    def __call__(self, sentences: Sequence[text.RawSentence]) -> list[ParsedSentence | Unparsed]:
        words = text.tokens_or_reason([sentence.text for sentence in sentences], self._tokenise)
        words = [too_long(self.max_tokens) if self._is_long(each) else each for each in words]
        trees = iter(self._loaded().parse([each for each in words if not isinstance(each, Unparsed)]))
        parsed = [each if isinstance(each, Unparsed) else next(trees) for each in words]
        if self.strict:
            refuse_faults(sentences, parsed)
        return parsed

    @property
    def gpus(self) -> int:
        return int(self.options.device.startswith("cuda"))

    def _loaded(self) -> Parser:
        return loaded(self.parser, self.options)

    def _tokenise(self, texts: Sequence[str]) -> Sequence[text.Words]:
        if self.tokenised:
            return text.between_spaces(texts)
        parser = self._loaded()
        if isinstance(parser, Tokeniser):
            return parser.tokenise(texts)
        return text.tokenise_all(texts, self.options.language)

    def _is_long(self, words: text.Words) -> bool:
        return not isinstance(words, Unparsed) and len(words) > self.max_tokens

    def describe(self) -> dict[str, Any]:
        parser = self._loaded()
        if self.tokenised:
            tokeniser = {"name": "whitespace"}
        elif isinstance(parser, Tokeniser):
            tokeniser = {"name": str(self.parser.parts[0])}
        else:
            tokeniser = text.describe_rules(self.options.language)
        return {"parser": parser.describe(), "tokeniser": tokeniser}


def refuse_faults(sentences: Sequence[text.RawSentence], parsed: Sequence[ParsedSentence | Unparsed]) -> None:
    """Raise InputError for the first sentence that a parser failed at."""
    for sentence, tree in zip(sentences, parsed, strict=True):
        if isinstance(tree, Fault):
            raise InputError(
                f"line {sentence.line}, {sentence.text[:60]!r}: {tree.reason}: leave out --strict to skip these"
            )


@dataclass(frozen=True)
class TakeTrees:
    """Take the trees that the sentences come with."""

    max_tokens: int
    gpus: int = 0

    def __call__(self, sentences: Sequence["TreebankSentence"]) -> list[ParsedSentence | Unparsed]:
        return [self._checked(sentence.sentence) for sentence in sentences]

    def _checked(self, tree: ParsedSentence | Unparsed) -> ParsedSentence | Unparsed:
        if isinstance(tree, ParsedSentence) and len(tree.tokens) > self.max_tokens:
            return too_long(self.max_tokens)
        return tree

    def describe(self) -> dict[str, Any]:
        return {"parser": {"name": TREEBANK}, "tokeniser": {"name": TREEBANK}}


def too_long(max_tokens: int) -> Unparsed:
    """Why a longer sentence is skipped."""
    return Unparsed(f"more than {max_tokens} tokens")


@cache
def loaded(specification: Specification, options: Options) -> Parser:
    """The parser of a specification, loaded once in a worker process and given one thread.

    Threads share out sums differently, and results must not depend on the number of workers.
    """
    parser = specification.load(options)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    return parser


def open_source(
    paths: Sequence[str],
    *,
    parser: str,
    layout: text.Layout | None,
    tokenised: bool,
    max_tokens: int,
    options: Options = DEFAULTS,
    strict: bool = False,
) -> "TextSource | TreebankSource":
    """The source that a user names: one text, or the files of a treebank with ``parser="treebank"``.

    Raises:
        InputError: if the files, the parser and the settings do not go together, or cannot be used.
    """
    if parser != TREEBANK and TREEBANK in parser.split("+"):
        raise InputError(f"--parser {parser}: treebank files come with their trees: name {TREEBANK} alone")
    if parser == TREEBANK:
        if layout or tokenised or strict or options != DEFAULTS:
            raise InputError(
                "--format, --tokenised, --lang, --models, --device and --strict are for texts: "
                "leave them out with --parser treebank"
            )
        return TreebankSource([Path(path) for path in paths], max_tokens=max_tokens)
    if len(paths) != 1:
        raise InputError(f"{len(paths)} sources ({', '.join(paths)}): a parsed corpus is made from one text")
    return TextSource(
        paths[0],
        parser=parser,
        layout=layout,
        tokenised=tokenised,
        max_tokens=max_tokens,
        options=options,
        strict=strict,
    )


def parse_sentence(sentence: str, *, parser: str, options: Options, tokenised: bool) -> ParsedSentence:
    """One sentence with its trees.

    Args:
        sentence: its text.
        parser: specification of a parser.
        options: what the parser is loaded with.
        tokenised: whether the words stand between white space.

    Raises:
        InputError: if there is no such parser, or it cannot parse this.
    """
    if TREEBANK in parser.split("+"):
        raise InputError(f"--parser {parser}: a treebank is read from files: name a parser")
    work = ParseText(Specification.of(parser), options, tokenised, MOST_TOKENS, strict=False)
    (tree,) = work([text.RawSentence(0, 0, 1, sentence)])
    if isinstance(tree, Unparsed):
        raise InputError(f"{sentence[:60]!r}: not parsed: {tree.reason}")
    return tree


def output_name(source: str) -> str:
    """The default name of the corpus made from a source, in the current folder."""
    if source == STDIN:
        return "corpus.parsed"
    name = Path(source).name
    for suffix in (*text.COMPRESSED, ".txt", *TREEBANK_SUFFIXES):
        name = name.removesuffix(suffix)
    return f"{name}.parsed"


class TextSource:
    """A text and a parser for it.

    Args:
        source: path of a text, or ``-`` for standard input.
        parser: specification of a parser.
        layout: ``lines`` or ``prose``; guessed if None.
        tokenised: whether the words stand between white space.
        max_tokens: longer sentences are skipped.
        options: what the parser is loaded with.
        strict: whether a sentence that the parser fails at is an error.

    Raises:
        InputError: if the text cannot be used (see ``text.survey``), there is no such parser, or no rules for the
            language where they are needed.
    """

    def __init__(
        self,
        source: str,
        *,
        parser: str,
        layout: text.Layout | None,
        tokenised: bool,
        max_tokens: int,
        options: Options = DEFAULTS,
        strict: bool = False,
    ) -> None:
        self.work: Work = ParseText(Specification.of(parser), options, tokenised, checked(max_tokens), strict)
        if source.endswith(TREEBANK_SUFFIXES):
            raise InputError(f"{source} is a treebank file: add --parser {TREEBANK}")
        # Spooled, since it is read more than once; the file goes when this object does.
        self._spool = spooled_stdin() if source == STDIN else None
        self.path = Path(self._spool.name if self._spool else source)
        self.file = SurveyedFile(self.path, "standard input" if source == STDIN else source)
        self.lines = self.file.survey.lines
        self.layout = layout or self.file.survey.guess
        self.note = "" if layout else LAYOUT_NOTES[self.layout]
        self.tokenised = tokenised
        self.max_tokens = max_tokens
        self.options = options
        if self.layout == "prose" and not tokenised:
            text.rules(options.language)

    def describe(self) -> dict[str, Any]:
        models = self.options.models
        return {
            "sources": [self.file.describe()],
            "settings": {"format": self.layout, "tokenised": self.tokenised, "max_tokens": self.max_tokens},
            # Where a run will look for its parser; the parser's description tells whether it is the same.
            **({MODELS: str(models.resolve())} if models else {}),
        }

    def sentences(self) -> Iterator[text.RawSentence]:
        return text.read_sentences(self.path, self.layout, tokenised=self.tokenised, language=self.options.language)

    def changed(self) -> list[str]:
        return [self.file.name] if self.file.changed() else []


class TreebankSource:
    """Treebank files with their own tokens and trees.

    Args:
        paths: a ``.conllu`` file, a bracketed file, or one of each over the same sentences.
        max_tokens: longer sentences are skipped.

    Raises:
        InputError: if a file cannot be read.
    """

    def __init__(self, paths: Sequence[Path], *, max_tokens: int) -> None:
        # The places of sentences are those in the CoNLL-U file, where there is one.
        self.paths = sorted(paths, key=lambda path: path.suffix != ".conllu")
        self.work: Work = TakeTrees(checked(max_tokens))
        self.max_tokens = max_tokens
        self.note = ""
        self.files = [SurveyedFile(path, str(path)) for path in self.paths]
        self.lines = self.files[0].survey.lines

    def describe(self) -> dict[str, Any]:
        return {
            "sources": [file.describe() for file in self.files],
            "settings": {"max_tokens": self.max_tokens},
        }

    def sentences(self) -> Iterator["TreebankSentence"]:
        from .backends.treebank import read_treebank  # noqa: PLC0415 - nltk is slow to import

        return read_treebank(self.paths)

    def changed(self) -> list[str]:
        return [file.name for file in self.files if file.changed()]


class SurveyedFile:
    """A file and what it held when it was first read (see ``text.survey``)."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.name = name
        self.survey = text.survey(path, name)

    def describe(self) -> dict[str, Any]:
        """What the manifest says of it."""
        return {"sha256": self.survey.sha256, "bytes": self.survey.bytes}

    def changed(self) -> bool:
        """Whether it holds anything else now, or nothing; read again only if something happened to it."""
        if text.file_state(self.path) == self.survey.state:
            return False
        try:
            again = text.survey(self.path, self.name)
        except InputError:
            return True
        if again.sha256 != self.survey.sha256:
            return True
        self.survey = again
        return False


def checked(max_tokens: int) -> int:
    """``max_tokens``, or InputError if it is not a length that a corpus can hold."""
    if not 1 <= max_tokens <= MOST_TOKENS:
        raise InputError(f"--max-tokens {max_tokens}: give a number from 1 to {MOST_TOKENS}")
    return max_tokens


def spooled_stdin() -> Any:
    """Standard input as a temporary file on disk, which vanishes when it is closed."""
    try:
        spool = tempfile.NamedTemporaryFile(prefix="structviews-", suffix=".txt")  # noqa: SIM115 - outlives this call
        shutil.copyfileobj(sys.stdin.buffer, spool)
        spool.flush()
    except OSError as error:
        folder = tempfile.gettempdir()
        raise InputError(
            f"standard input cannot be kept in {folder} ({error.strerror}): set TMPDIR to a roomier folder"
        ) from None
    return spool
