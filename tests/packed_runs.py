"""``pack`` and ``ship`` of ``scripts/default_model.py``, for tests of packed runs."""

import importlib.util
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "scripts/default_model.py"
spec = importlib.util.spec_from_file_location("packing", SCRIPT)
packing = importlib.util.module_from_spec(spec)
spec.loader.exec_module(packing)
pack, ship = packing.pack, packing.ship
