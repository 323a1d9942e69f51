"""The demo's corpus: from pieces of documentation as they are written, to the whole standard library."""

from pathlib import Path

import pytest

from structviews.demo import python_docs
from structviews.demo.python_docs import sentences, write_corpus
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
