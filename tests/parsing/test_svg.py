import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from chain_parser import chain
from drawn_sentences import BIRD, dissolved, labelled
from hypothesis import given, settings
from nltk.tree import Tree
from nltk_trees import as_nltk
from rich.cells import cell_len

from structviews.errors import InputError
from structviews.parsing.binarise import unbinarise
from structviews.parsing.drawing import Chosen
from structviews.parsing.svg import COLUMN, dependency_tree, element, svg, write_svg

SVG = "{http://www.w3.org/2000/svg}"
BOTH = ("constituency", "dependency")


def chosen(sentence, kinds=BOTH, name="sentence 0", place="document 0, position 0, line 1"):
    return Chosen(name, place, sentence, list(kinds))


def texts(root, name):
    """The texts of the elements of a class, in order."""
    return ["".join(e.itertext()) for e in root.iter() if name in e.get("class", "").split()]


def bracket_trees(root):
    """The trees that branches and texts show."""
    return [
        read_tree(group) for group in root.iter(f"{SVG}g") if group.find(f"{SVG}text[@class='word middle']") is not None
    ]


def read_tree(group):
    """A tree by following its branches from one text to others."""
    at = {}
    for text in group.iter(f"{SVG}text"):
        if "middle" in text.get("class"):
            at[text.get("x"), float(text.get("y"))] = text
    below = {}
    for path in group.iter(f"{SVG}path"):
        start, *ends = re.findall(r"M([\d.]+),([\d.]+) (?:V[\d.]+|H([\d.]+) V([\d.]+))", path.get("d"))
        below[start[0], float(start[1]) - 6] = [(end[2], float(end[3]) + 14) for end in ends]
    roots = set(below) - {end for ends in below.values() for end in ends}

    def read(place):
        if place in below:
            return Tree(at[place].text, [read(end) for end in below[place]])
        word = at[place[0], place[1] + 20]
        assert word.get("class") == "word middle"
        return Tree(at[place].text, [word.text])

    return read(*roots or [min(at, key=lambda place: place[1])])


def read_heads(root, n):
    """Heads by the ends of the arcs, of which the last has an arrow, and the relation of each word."""
    bottom = max(float(e.get("y")) for e in root.iter(f"{SVG}text"))
    words = [float(e.get("x")) for e in root.iter() if e.get("class") == "word middle"]
    assert len(words) == n
    arcs = [e.get("d") for e in root.iter() if e.get("class") == "arc"]
    arrows = [e.get("d") for e in root.iter() if e.get("class") == "arrow"]
    names = [e for e in root.iter() if e.get("class") == "relation middle"]
    heads, relations = [0] * n, ["root"] * n
    for arc, arrow, name in zip(arcs, arrows, names, strict=True):
        start, base, top, end = map(float, re.match(r"M(\S+),(\S+) V\S+ Q\S+,(\S+) .* Q(\S+),", arc).groups())
        assert arrow.startswith(f"M{end:g},{base:g} ")
        assert bottom > base > top
        # An arrow is over the middle of its word, and an arc is named in its own middle.
        dependent, head = words.index(end), min(range(n), key=lambda word: abs(words[word] - start))
        assert float(name.get("x")) == pytest.approx((start + end) / 2)
        assert float(name.get("y")) == top + 4
        heads[dependent], relations[dependent] = head + 1, name.text
    return tuple(heads), tuple(relations)


@given(labelled())
@settings(max_examples=30)
def test_trees_are_read_back(sentence):
    original, binarised = bracket_trees(ElementTree.fromstring(svg([chosen(sentence, ["constituency"])])))
    if any("\u0590" <= c <= "\u06ff" for word in sentence.tokens for c in word):
        # Such sentences may be mirrored: a test of its own.
        assert sorted(original.leaves()) == sorted(sentence.tokens)
    else:
        assert original == as_nltk(unbinarise(sentence))
        assert dissolved(binarised) == original
    root = ElementTree.fromstring(svg([chosen(sentence, ["dependency"])]))
    heads, relations = read_heads(root, len(sentence.tokens))
    assert heads == sentence.heads
    assert relations == sentence.relations


@given(labelled())
@settings(max_examples=30)
def test_texts_of_a_row_do_not_overlap(sentence):
    root = ElementTree.fromstring(svg([chosen(sentence)]))
    for group in root.iter(f"{SVG}g"):
        rows = {}
        for text in group.findall(f"{SVG}text"):
            if "middle" in text.get("class"):
                half = COLUMN * cell_len(text.text) / 2
                rows.setdefault(text.get("y"), []).append((float(text.get("x")) - half, float(text.get("x")) + half))
        for extents in rows.values():
            extents.sort()
            assert extents[0][0] >= 0
            assert all(a[1] < b[0] for a, b in pairwise(extents))


def test_what_reads_from_right_to_left_is_mirrored():
    sentence = replace(BIRD, tokens=("אני", "אוהב", "ציפור", "שרה", "."))
    root = ElementTree.fromstring(svg([chosen(sentence)]))
    for tree in root.iter(f"{SVG}g"):
        words = tree.findall(f"{SVG}text[@class='word middle']")
        if words:
            assert [w.text for w in sorted(words, key=lambda w: -float(w.get("x")))] == list(sentence.tokens)
    root = ElementTree.fromstring(svg([chosen(sentence, ["dependency"])]))
    assert read_heads(root, 5)[0] == BIRD.heads


def test_hostile_text_is_text():
    sentence = replace(
        BIRD,
        tokens=("<script>", '"&amp;', "a\x1b\uffffb", "\u0301", "]]>"),
        tags=("<b>", "&", '"', "'", "\x00"),
        relations=("a<b", "c&d", 'e"f', "root", "g\x07"),
    )
    place = "document <0> & \x07"
    root = ElementTree.fromstring(svg([chosen(sentence, place=place)]))
    words = ["<script>", '"&amp;', "a␛\ufffdb", "◌\u0301", "]]>"]
    assert texts(root, "word")[-5:] == words
    assert texts(root, "label")[-5:] == ["<b>", "&", '"', "'", "␀"]
    assert texts(root, "relation") == ["a<b", "c&d", 'e"f', "g␇"]
    assert not list(root.iter(f"{SVG}script"))
    assert texts(root, "title")[0] == "sentence 0: document <0> & ␇"


def test_it_stands_by_itself():
    markup = svg([chosen(BIRD)])
    assert not re.search(r'(href|src)="(?!#)|url\(|@import|<script', markup)


def test_one_word_and_a_deep_tree():
    for sentence in (chain(["a"]), chain(["word"] * 1500)):
        root = ElementTree.fromstring(svg([chosen(sentence, ["constituency"])]))
        assert Counter(texts(root, "word")) == Counter(sentence.tokens * 2)
    root = ElementTree.fromstring(svg([chosen(chain(["a"]), ["dependency"])]))
    assert texts(root, "word") == ["a"]


@pytest.mark.parametrize("name", ["none/page.svg", "page.png", "file", "folder.svg"])
def test_what_cannot_be_written_is_one_line_and_leaves_nothing(tmp_path, name):
    (tmp_path / "file").touch()
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(InputError, match=f"^--svg .*{re.escape(name)}") as caught:
        write_svg(tmp_path / name, [chosen(BIRD)])
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder.svg"]


def test_arcs_are_as_wide_as_their_weights_and_say_them():
    weights = [0.25 if head else float("nan") for head in BIRD.heads]
    weights[0] = 0.75
    root = ElementTree.fromstring(element(dependency_tree(BIRD, weights), "a <bird>"))
    assert root.get("aria-label") == "a <bird>"
    rows = zip(BIRD.heads, BIRD.relations, weights, strict=True)
    relations = [f"{name} {weight:.2f}" for head, name, weight in rows if head]
    assert texts(root, "relation") == relations
    widths = [float(path.get("stroke-width")) for path in root.iter(f"{SVG}path") if path.get("class") == "arc"]
    assert widths == [4, *[2] * (len(widths) - 1)]
    plain = ElementTree.fromstring(element(dependency_tree(BIRD), ""))
    assert not any(path.get("stroke-width") for path in plain.iter())
