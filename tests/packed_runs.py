"""``pack`` and ``ship`` of ``scripts/bundled_models``, for tests of packed runs."""

import importlib.util
from pathlib import Path

PACKING = Path(__file__).resolve().parents[1] / "scripts" / "bundled_models" / "packing.py"
spec = importlib.util.spec_from_file_location("packing", PACKING)
packing = importlib.util.module_from_spec(spec)
spec.loader.exec_module(packing)
pack, ship = packing.pack, packing.ship
