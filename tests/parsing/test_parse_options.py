"""``structviews parse`` with parsers, languages and models: what is recorded, and what is one line."""

import pytest
from typer.testing import CliRunner

from structviews.cli.app import app
from structviews.corpus.format import Skipped
from structviews.corpus.parsed_corpus import ParsedCorpus
from structviews.errors import InputError
from structviews.parsing import pipeline, specification
from structviews.parsing.parser import Options
from structviews.parsing.sources import open_source

TEXT = "Ich geh's z.B. an.\nSie auch.\n"
BOTH = "trivial:balanced+trivial:random"


def parse(*arguments):
    return CliRunner().invoke(app, ["parse", *map(str, arguments)])


@pytest.fixture
def text(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    return tmp_path / "a.txt"


@pytest.mark.slow
def test_a_combination_is_recorded_with_its_language_and_models(text, tmp_path):
    out = tmp_path / "a.parsed"
    models = tmp_path / "models"
    models.mkdir()
    options = (text, "--parser", BOTH, "--lang", "de", "--models", models, "--format", "lines", "-o", out)
    ended = parse(*options)
    assert ended.exit_code == 0, ended.output
    corpus = ParsedCorpus.open(out)
    assert corpus.parser == specification.load(BOTH, Options("de")).describe()
    assert corpus.parser["dependency"]["name"] == "trivial:balanced"
    assert corpus.manifest["tokeniser"]["name"] == "spacy.blank('de')"
    assert corpus.manifest["models"] == str(models.resolve())
    assert corpus.sentence(0).tokens == ("Ich", "geh's", "z.B.", "an", ".")
    models.rename(tmp_path / "moved")
    moved = [tmp_path / "moved" if option == models else option for option in options]
    assert "already exists" in parse(*moved).output
    ended = parse(*moved, "--lang", "fr")
    assert "differs in parser and tokeniser" in str(ended.exception)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--lang", "de"], "--lang de: builtin only parses English (en): choose another --parser"),
        (["--parser", "treebank+builtin"], "--parser treebank+builtin: treebank files already have trees: "),
        (["--parser", "treebank", "--device", "cpu"], "--format, --tokenised, --models, --device and --strict only"),
    ],
)  # fmt: skip
def test_bad_options_are_one_line(text, tmp_path, arguments, message):
    before = sorted(tmp_path.iterdir())
    ended = parse(text, *arguments, "-o", tmp_path / "x.parsed")
    assert isinstance(ended.exception, InputError), ended.output
    assert str(ended.exception).startswith(message)
    assert "\n" not in str(ended.exception)
    assert sorted(tmp_path.iterdir()) == before


FAULTY = "a word\nno fault\ndrop this\n"


def test_faults_are_skipped_and_recorded_or_strict(tmp_path):
    path, out = tmp_path / "a.txt", tmp_path / "a.parsed"
    path.write_text(FAULTY)
    settings = {"parser": "faulty", "layout": "lines", "tokenised": True, "max_tokens": 9}
    message = "line 1, 'a word': faulty returned different tokens: leave out --strict to skip these"
    with pytest.raises(InputError, match=f"^{message}$"):
        pipeline.parse_corpus(open_source([str(path)], **settings, strict=True), out)
    # What was begun strictly goes on otherwise, and is the same.
    corpus, _ = pipeline.parse_corpus(open_source([str(path)], **settings), out)
    assert [row.sentence.tokens for row in corpus] == [("no", "fault")]
    assert corpus.skipped == [
        Skipped(0, 0, 1, "faulty returned different tokens"),
        Skipped(0, 2, 3, "faulty returned 0 sentences for 1"),
    ]
