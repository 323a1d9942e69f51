"""``pack`` of ``scripts/default_model.py``, for tests of packed runs."""

import runpy

from scripts_for_tests import SCRIPTS

pack = runpy.run_path(str(SCRIPTS / "default_model.py"))["pack"]
