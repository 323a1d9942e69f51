"""Damaged files, a few of each kind for each reader; and no reader without them.

``scripts/robustness.py`` does the same with thousands.
"""

import ast
from functools import cache
from itertools import islice
from pathlib import Path

import pytest
from all_readers import READERS
from readers import Sample, damages, outcomes, whole
from sandbox import FAULTS

ROOT = Path(__file__).parents[2]
PACKAGES = {"": ROOT / "structviews", "parsing.": ROOT / "parsing"}
INPUTS = 12
SEED = 1
# What reads the content of a file, or turns a file's text into values.
CALLS = {
    "json.loads", "json.load", "tomllib.loads", "tomllib.load", "safe_open", "load_file", "np.load", "np.memmap",
    "np.fromfile", "torch.load", "pa.memory_map", "pa.OSFile", "pa.input_stream", "pa.ipc.open_file", "gzip.open",
    "gzip.GzipFile", "zipfile.ZipFile", "pa.ipc.open_stream", "pyarrow.parquet.read_table", "parse_json",
}  # fmt: skip
METHODS = {"read_text", "read_bytes"}
# Functions that read for others, whatever the content: their callers are the readers.
LOWEST = "runtime."
ONLY_HASHED = {"file_hash", "hash_files"}
# What the lowest floor reads of the machine, and who holds a lock.
NO_FILES = {"_holder", "available_bytes"}
# Files that come with the package, or whose content is not looked at; each with the reason.
NOT_READERS = {
    "parsing.tokenising:EnglishRules.__init__": "package data",
    "recipes.recipe:_rows": "package data",
    "evaluation.scores.published:_content": "package data",
    "evaluation.scores.published:papers": "package data",
    "evaluation.scores.published:published": "package data",
    "evaluation.scores.results:_save_predictions": "what it has just written",
    "parsing.export:_holds": "compared with what would be written",
    "corpus.writer:entry_of": "what is about to be written",
    "hub.card:model_card": "package data; the settings are copied as they are",
    "serving.endpoints:create_app": "package data",
    "demo.python_docs:raw_documents": "Python's own files",
    "pretrained.loading:Blueprint.of": "copied as they are; the encoder is loaded from them",
    "pretrained.stored_states:outdated": "names what nothing reads; a damaged file there is passed over",
}


def dotted(node):
    """The name of what is called, as it is written."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def opens_to_read(call):
    """Whether ``open(...)`` or ``path.open(...)`` reads; classes' own ``open`` are no files."""
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    if name != "open" or dotted(call.func) == "os.open":
        return False
    arguments = call.args if isinstance(call.func, ast.Attribute) else call.args[1:]
    modes = [each.value for each in (*arguments, *(k.value for k in call.keywords)) if isinstance(each, ast.Constant)]
    if isinstance(call.func, ast.Attribute) and call.args and not modes:
        return False
    return not any(str(mode)[:1] in ("w", "a", "x") for mode in modes)


def functions_of(tree):
    """All functions with the names of the classes and functions around them."""

    def walk(node, prefix):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                name = f"{prefix}{child.name}"
                if isinstance(child, ast.FunctionDef):
                    yield name, child
                yield from walk(child, f"{name}.")
            else:
                yield from walk(child, prefix)

    yield from walk(tree, "")


def own_calls(function):
    """The calls of a function itself, without those of functions inside it."""
    nodes = list(ast.iter_child_nodes(function))
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Call):
            yield node
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            nodes += ast.iter_child_nodes(node)


def reads(function, helpers):
    """Whether a function reads a file itself, or by a function of the lowest floor."""
    for call in own_calls(function):
        name = dotted(call.func)
        if name in CALLS or name in helpers or name.rpartition(".")[2] in METHODS or opens_to_read(call):
            return True
    return False


def modules():
    for prefix, folder in PACKAGES.items():
        for path in sorted(folder.rglob("*.py")):
            name = prefix + ".".join(path.relative_to(folder).with_suffix("").parts)
            yield name, ast.parse(path.read_text("utf-8"))


@cache
def places_that_read():
    """All functions that read files, as ``module:function``."""
    trees = dict(modules())
    lowest = [each for name, tree in trees.items() if name.startswith(LOWEST) for each in functions_of(tree)]
    helpers = set()
    while more := {name for name, each in lowest if reads(each, helpers)} - helpers - ONLY_HASHED - NO_FILES:
        helpers |= more
    return {
        f"{module}:{name}"
        for module, tree in trees.items()
        if not module.startswith(LOWEST)
        for name, function in functions_of(tree)
        if name not in ONLY_HASHED and reads(function, helpers)
    }


COVERED = {place for each in READERS.values() for place in each.covers}


def test_every_place_that_reads_a_file_has_a_reader_here():
    assert sorted(places_that_read() - COVERED - NOT_READERS.keys()) == []


def test_nothing_is_listed_that_reads_no_file():
    assert sorted((COVERED | NOT_READERS.keys()) - places_that_read()) == []


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("readers")


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_refused_in_one_line_or_read(name, root):
    sample = Sample.of(READERS[name], root)
    original = whole(sample)
    damaged = list(islice(damages(sample, SEED), INPUTS))
    found = zip(damaged, outcomes(sample, original, damaged), strict=True)
    faults = [f"{a.kind}: {a.detail} ({d.path.name}, {d.mutation})" for d, a in found if a.kind in FAULTS]
    assert not faults, f"{len(faults)} of {INPUTS} inputs:\n" + "\n".join(faults)
