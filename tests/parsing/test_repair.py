import io
import re
import unicodedata

import pytest
from ftfy import chardata, fixes
from hypothesis import given
from hypothesis import strategies as st
from jobs import text_source
from rich.console import Console

from structviews.corpus import corpus_statistics
from structviews.encoding.preparation import Preparer
from structviews.parsing import pipeline, text
from structviews.parsing.parser import Options
from structviews.parsing.sources import parse_sentence
from structviews.parsing.text import TABLES, Repairs, repair
from structviews.runs.settings_file import Parsed

C1 = "".join(map(chr, range(0x80, 0xA0)))
# Texts in which the characters are meant.
INTENDED = {
    "zh": "你好，世界！（是的）",
    "ja": "「ﾊﾝｶｸ」と　ＺＥＮ",
    "ko": "ﾡ 한국，",
    "th": "ภาษา\u200bไทย",
    "fa": "می\u200cخواهم",
    "hi": "क्\u200dष",
    "de": "👩\u200d👩\u200d👧 und 🏴\U000e0067\U000e0062\U000e007f",
    "en": "café, naïve, Œuvre, æther — ‘so’ “on”…\u00a0\u202aabc\u202c\u200e",
    "xx": "你好，ไทย\u200bไทย",
}


@pytest.mark.parametrize(
    ("raw", "language", "meant", "kinds"),
    [
        ("\x93So what?\x94 he won\x92t say\x85", "en", "“So what?” he won’t say…", ["windows-1252"]),
        ("a ﬁne ﬂuﬃest ﬅ", "en", "a fine fluffiest ſt", ["ligature"]),
        ("ＬＯＵＤ，　ｶﾅ", "en", "LOUD, カナ", ["full-width"]),
        ("to the point\xad.", "en", "to the point.", ["soft hyphen"]),
        ("an exam\xad\r\nple of one\xad\n", "de", "an example of one", ["soft hyphen"]),
        ("\ufefffoo\u200bbar\u2060!", "en", "foobar!", ["zero-width"]),
        ("\x96 ﬁ，\xad\u200b", "zh", "– fi，", ["windows-1252", "ligature", "soft hyphen", "zero-width"]),
        ("\x96 ﬁ，\xad\u200b", "th", "– fi,\u200b", ["windows-1252", "ligature", "full-width", "soft hyphen"]),
    ],
)
def test_each_kind(raw, language, meant, kinds):
    assert repair(raw, language) == (meant, kinds)


@pytest.mark.parametrize("language", INTENDED)
def test_what_is_meant_stays(language):
    assert repair(INTENDED[language], language) == (INTENDED[language], [])


def test_html_and_ftfy_agree():
    repaired, _ = repair(C1, "en")
    assert repaired == fixes.fix_c1_controls(C1)
    # The Encoding Standard's index leaves these as they are; they still are no text.
    assert text.CONTROL.findall(repaired) == ["\x81", "\x8d", "\x8f", "\x90", "\x9d"]
    assert TABLES["ligature"] == chardata.LIGATURES
    width = TABLES["full-width"]
    assert width.keys() == chardata.WIDTH_MAP.keys()
    for code, meant in width.items():
        assert unicodedata.normalize("NFKC", meant) == unicodedata.normalize("NFKC", chardata.WIDTH_MAP[code])


@given(
    st.text(st.sampled_from([*C1, *"aﬁĲ，ｶ　\xad\u200b\u200d\ufeffö。 \r\n"]) | st.characters()),
    st.sampled_from(["en", "zh", "th"]),
)
def test_a_repaired_text_needs_no_repair_and_only_what_is_listed_changes(raw, language):
    repaired, kinds = repair(raw, language)
    assert repair(repaired, language) == (repaired, [])
    assert bool(kinds) == (repaired != raw)
    listed = set().union(*TABLES.values())
    others = [c for c in raw.replace("\xad\r\n", "").replace("\xad\n", "") if ord(c) not in listed]
    rest = iter(repaired)
    assert all(each in rest for each in others)  # in this order


LINES = """It was so\x85
“Fine” \x96 she said
a\x96b ﬁne
\u200b
plain \x8d here
bell\x07 \x96
"""


def parsed(folder, content, **options):
    path = folder / "a.txt"
    path.write_bytes(content.encode())
    source = text_source(path, **{"parser": "trivial:balanced", "max_tokens": 40} | options)
    return pipeline.parse_corpus(source, path.with_suffix(".parsed"))[0]


def test_a_parsed_text_is_repaired_and_says_so(tmp_path):
    corpus = parsed(tmp_path, LINES)
    # A line that shows nothing is blank.
    assert [(row.document, row.line, row.sentence.tokens) for row in corpus] == [
        (0, 1, ("It", "was", "so", "…")),
        (0, 2, ("“", "Fine", "”", "–", "she", "said")),
        (0, 3, ("a", "–", "b", "fine")),
    ]
    reasons = ["control character U+008D", "control character U+0007"]
    assert [skip.reason for skip in corpus.skipped] == reasons
    assert corpus.manifest["repaired"] == {"windows-1252": 4, "ligature": 1, "zero-width": 1}
    kinds = "4 windows-1252, 1 ligature, 1 zero-width"
    assert pipeline.summary(corpus) == f"2 skipped: 1 {reasons[0]}, 1 {reasons[1]}, lines repaired: {kinds}"
    table = io.StringIO()
    Console(file=table).print(corpus_statistics.overview(corpus))
    assert re.search(r"repaired lines\s+┌.*\s+│ windows-1252 │ 4 │", table.getvalue())
    assert corpus_statistics.statistics_of(corpus)["repaired"]["ligature"] == 1


def test_tokens_are_never_changed(tmp_path):
    content = "so\x85 it was\na\x96b\nﬁne ， \xad \u200b .\n"
    corpus = parsed(tmp_path, content, tokenised=True)
    assert [row.sentence.tokens for row in corpus] == [("ﬁne", "，", "\xad", "\u200b", ".")]
    assert [skip.reason for skip in corpus.skipped] == ["control character U+0085", "control character U+0096"]
    assert "repaired" not in corpus.manifest


def test_prose_keeps_its_lines(tmp_path):
    content = "It was \x93so\x94. Was it? An exam\xad\nple ﬁrst\x85\nof all. The\x96end.\n\x85\nStill one.\n\n\n"
    content += "Next one. Done.\n"
    # The same without accidents; the broken word ends on the line that it is joined from.
    clean = content.translate(TABLES["windows-1252"]).replace("\xad\n", "").replace("ﬁ", "fi")
    repairs, found = Repairs("en"), []
    for name, prose in (("a.txt", content), ("b.txt", clean)):
        (tmp_path / name).write_bytes(prose.encode())
        read = text.read_sentences(tmp_path / name, "prose", tokenised=False, language="en", repairs=repairs)
        found.append(list(read))
    assert [s.text for s in found[0]] == [s.text for s in found[1]]
    assert [s.line for s in found[0]] == [1, 1, 1, 3, 4, 8, 8]
    assert repairs.lines == {"windows-1252": 4, "soft hyphen": 1, "ligature": 1}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_use_and_training_agree(tmp_path, language):
    content, words = "a\x96b ﬁne，\xad ﬁt\x85\n", ["a\x96b", "ﬁne"]
    corpus = parsed(tmp_path, content, options=Options(language))
    preparer = Preparer(Parsed("", corpus.parser, corpus.manifest["tokeniser"]))
    text_of, list_of = preparer.prepare([content, words], {"tokens"})
    assert (text_of.tokens, list_of.tokens) == (corpus.sentence(0).tokens, tuple(words))
    alone = parse_sentence(content, parser="trivial:balanced", options=Options(language), tokenised=False)
    assert alone == corpus.sentence(0)


def test_a_job_that_goes_on_counts_all_lines(tmp_path, interrupted):
    content = "one \x96\ntwo \x96\n\nthree ﬁ\n"
    interrupted(parsed, tmp_path, content)
    assert parsed(tmp_path, content).manifest["repaired"] == {"windows-1252": 2, "ligature": 1}
