"""The floors of docs/design.md: who may import whom."""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = {"structviews": ROOT / "structviews", "structviews.parsing": ROOT / "parsing"}
# Who uses the offline stage beside the commands: what prepares sentences, has a parser as an argument, draws trees,
# reads running text, alters sentences, or runs the demonstration.
USES_PARSING = re.compile(
    r"structviews\.(cli\..*|demo\.job|report\.page|serving\.served|encoding\.(embedder|preparation|sentence_encoder)"
    r"|recipes\.(reproduction|stages)|evaluation\.(senteval\.tasks\.structure|perturbing\.perturbed_source)"
    r"|encoding\.kinds(\.\w+)?|adapters\.(mteb|sentence_transformers)|training\.parser_training)"
)


def modules():
    """The files of all modules, by name."""
    found = {}
    for package, folder in PACKAGES.items():
        for path in sorted(folder.rglob("*.py")):
            name = ".".join((package, *path.relative_to(folder).with_suffix("").parts))
            found[name.removesuffix(".__init__")] = path
    return found


MODULES = modules()


def imports(path):
    """The modules of ours that a file imports, in functions and for type checking too, each with its statement."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno}: a relative import"
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            targets = [each if each in MODULES else node.module for each in full]
        else:
            continue
        yield from ((target, node) for target in targets if target in MODULES)


# What is imported only where a function is called. Scoring a task while training imports scikit-learn, which other jobs
# need not wait for, and the command line's imports may be interrupted.
LATE = {"structviews.training.loop": {"structviews.training.monitor"}, "structviews.__main__": {"structviews.cli.app"}}
ARROWS = {
    name: {target for target, _ in imports(path)} - {name} - LATE.get(name, set()) for name, path in MODULES.items()
}


def floors():
    """The order of design.md, from the ground up."""
    text = (ROOT / "docs/design.md").read_text("utf-8")
    block = re.search(r"<!-- floors -->\n\n(.*?)\n\n<!-- -->", text, re.DOTALL)
    return [row.split("|")[1].strip().strip("`") for row in block[1].splitlines()[2:]]


def floor_of(module, order):
    parts = module.split(".")
    return order.index(parts[1]) if len(parts) > 1 and parts[1] in order else len(order)


def test_every_folder_is_on_a_floor():
    folders = {name.split(".")[1] for name in MODULES if "." in name} - {"__main__"}
    assert sorted(floors()) == sorted(folders)


def test_no_arrow_goes_up():
    order = floors()
    up = [f"{a} -> {b}" for a in ARROWS for b in ARROWS[a] if "." in b and floor_of(b, order) > floor_of(a, order)]
    assert up == []


def test_there_is_no_ring():
    TopologicalSorter(ARROWS).prepare()  # names the modules of a ring


def test_the_offline_stage_is_imported_where_it_is_used():
    others = [
        f"{name} -> {target}"
        for name, targets in ARROWS.items()
        for target in targets
        if target.startswith("structviews.parsing")
        and not name.startswith("structviews.parsing")
        and not USES_PARSING.fullmatch(name)
    ]
    assert others == []


def test_nothing_of_ours_is_imported_in_a_function():
    """Commands may, for their start-up time; the package's two names come when they are asked for."""
    late = [
        f"{path}:{node.lineno}"
        for name, path in MODULES.items()
        if name != "structviews" and not name.startswith("structviews.cli.")
        for function in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
        and (target := node.names[0].name if isinstance(node, ast.Import) else node.module).startswith("structviews")
        and target not in LATE.get(name, ())
    ]
    assert late == []


def test_no_two_files_have_one_name():
    names = [path.name for path in MODULES.values() if path.name != "__init__.py"]
    assert sorted({name for name in names if names.count(name) > 1}) == []
