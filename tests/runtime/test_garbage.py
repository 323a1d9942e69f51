import gc
import subprocess
import sys

import pytest

from structviews.runtime.garbage import OBJECTS, collected_seldom

# A cycle that says so when it is collected.
CYCLE = """
class Cycle:
    def __init__(self):
        self.me = self
    def __del__(self):
        print("found")
{0}
cycle = Cycle()
"""
SELDOM = "from structviews.runtime.garbage import collect_seldom; collect_seldom()"


def test_within_the_block_garbage_is_collected_seldom():
    before = gc.get_threshold()
    with collected_seldom():
        assert gc.get_threshold()[0] == OBJECTS > before[0]
    assert gc.get_threshold() == before


@pytest.mark.parametrize(("line", "said"), [("", "found\n"), (SELDOM, "")])
def test_at_the_end_of_a_process_garbage_is_left(line, said):
    code = CYCLE.format(line)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (said, "")
