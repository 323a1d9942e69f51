"""The demo's corpus: from pieces of documentation as they are written, to the whole standard library."""

import sysconfig
from pathlib import Path

import pytest

from structviews.demo import python_docs
from structviews.demo.python_docs import is_prose, sentences, without_repeats, write_corpus
from structviews.errors import InputError

SPHINX = """\
Assignment statements
*********************

Assignment statements are used to (re)bind names to values and to
modify attributes of "mutable" objects:

   assignment_stmt ::= (target_list "=")+ (starred_expression)

* If the target list is a single target with no trailing comma,
  the object is assigned to that target.

  * The name is rebound if it was already bound.  It is then a built-
    in name.
2. It may be numbered as well.

+-----------+----------+
| Operation | Result.  |
+-----------+----------+

Changed in version 3.8: Unpacking was added to the return statement.

Note: The values are shared.
"""

DOCSTRING = """Return a :class:`~queue.Queue` of *maxsize* items, or ``None``.

    Example::

        The indented line is code that looks like prose.

        And so is this one.

    The following is a session:

    >>> print("It is done. The end.")
    It is done. The end of it.

    The first of these lines is not a bullet
    - The second is one.

    Arguments:
        size: how large it is. It should be positive.
        name -- what to call it

    Call `get()` and 'put' to use it, e.g. The Queue of os.path things.
    """


def test_sentences():
    assert sentences(SPHINX) == [
        "If the target list is a single target with no trailing comma, the object is assigned to that target.",
        "The name is rebound if it was already bound.",
        "It is then a built-in name.",
        "It may be numbered as well.",
        "Unpacking was added to the return statement.",
        "The values are shared.",
    ]
    assert sentences(DOCSTRING) == [
        "Return a Queue of maxsize items, or None.",
        "The second is one.",
        "It should be positive.",
        "Call get and put to use it, e.g. The Queue of os.path things.",
    ]


@pytest.mark.parametrize(
    "sentence",
    [
        *("Go on.", "The word " + "again " * 58 + "ends.", "the name is bound to an object."),
        *("The name is bound to an object", "The name is bound as follows:", "The result is x[i] = 3."),
        *("The path is C:\\temp.", "Mail to the author@example.org.", "Set self.x_y to os.path."),
        *("Simple Mail Transfer Protocol.", "The name (see above is bound.", "This raises an error..."),
    ],
)
def test_code_titles_and_fragments_are_no_prose(sentence):
    assert not is_prose(sentence)


def test_prose():
    assert is_prose("The name is bound to an object.")
    assert is_prose("Return self._name, which isn't set at all (see __init__).")
    assert is_prose('This is called "late binding" by 3.5% of the users -- or more!')


def test_a_repeat_stays_in_the_longest_text():
    texts = {"a": ["1", "2"], "b": ["0", "1", "2", "3", "0"], "c": ["3", "4", "5"], "d": ["6"]}
    assert without_repeats(texts) == {"b": ["0", "1", "2", "3"], "c": ["4", "5"]}


def library(folder: Path, **modules: str) -> Path:
    for name, text in modules.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def test_topics_then_modules_in_source_order_without_tests(tmp_path, monkeypatch):
    monkeypatch.setattr(python_docs, "MIN_SENTENCES", 0)
    left_out = '"""This is a test or a package.\n\nIt is left out."""\n'
    stdlib = library(
        tmp_path / "lib",
        pydoc_data__topics='topics = {"b": "This is the second.\\n\\nIt is a text.", '
        '"a": "This is the first.  It is one."}\n',
        zoo='"""This is the zoo."""\ndef f():\n    """The first of the functions."""\n    class A:\n'
        '        """The class is inside."""\nif 1:\n    async def g():\n        """The last of the functions."""\n',
        ark__boat='"""This is the boat."""\nraise SystemExit("imported")\n"""A string in the module."""\n'
        'class B:\n    """The class of the boat."""\n',
        **dict.fromkeys(("test_zoo", "test__support", "ark__tests__x", "site-packages__x"), left_out),
    )
    for name in ("text.txt", "again.txt"):
        write_corpus(tmp_path / name, stdlib)
    assert (tmp_path / "again.txt").read_bytes() == (tmp_path / "text.txt").read_bytes()
    assert (tmp_path / "text.txt").read_text(encoding="utf-8") == (
        "This is the first.\nIt is one.\n\n"
        "This is the second.\nIt is a text.\n\n"
        "This is the boat.\nThe class of the boat.\n\n"
        "This is the zoo.\nThe first of the functions.\nThe class is inside.\nThe last of the functions.\n\n"
    )


def test_a_library_without_documentation_is_an_error_and_leaves_no_file(tmp_path):
    stdlib = library(tmp_path / "lib", zoo="x = 1\n")
    with pytest.raises(InputError, match=r"lib: has only 0 sentences of documentation, fewer than 2000: use a Python"):
        write_corpus(tmp_path / "text.txt", stdlib)
    assert [path.name for path in tmp_path.iterdir()] == ["lib"]


@pytest.mark.slow
def test_this_python_gives_ten_to_twenty_thousand_sentences(tmp_path):
    if not (Path(sysconfig.get_path("stdlib")) / "pydoc_data" / "topics.py").is_file():
        pytest.skip("this Python has no pydoc_data.topics")
    write_corpus(tmp_path / "text.txt")
    text = (tmp_path / "text.txt").read_text(encoding="utf-8")
    documents = [document.split("\n") for document in text.removesuffix("\n\n").split("\n\n")]
    assert min(map(len, documents)) >= 2
    everything = [line for document in documents for line in document]
    assert 10_000 <= len(everything) <= 20_000
    assert len(set(everything)) == len(everything)
