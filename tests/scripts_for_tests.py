"""Files of ``scripts/`` as modules."""

import importlib.util
import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"


def load(name, monkeypatch):
    """``scripts/NAME.py`` as a fresh module, which finds its neighbours, until the end of the test."""
    monkeypatch.syspath_prepend(SCRIPTS)
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module
