"""``pack`` and ``ship`` of ``scripts/default_model.py``, for tests of packed runs."""

import runpy

from scripts_for_tests import SCRIPTS

SCRIPT = runpy.run_path(str(SCRIPTS / "default_model.py"))
pack, ship = SCRIPT["pack"], SCRIPT["ship"]
