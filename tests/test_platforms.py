"""What only some systems have is imported where it is used, so the package can be imported on all of them."""

import subprocess
import sys

# Modules that Windows lacks, and the adapters whose own libraries import them.
BLOCKED = ("fcntl", "resource", "termios", "pwd", "grp", "tty", "pty")
OTHERS = ("structviews.adapters.mteb", "structviews.adapters.sentence_transformers")
IMPORTS = f"""
import importlib, pkgutil, signal, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name in {BLOCKED}:
            raise ImportError(name)

for name in {BLOCKED}:
    sys.modules.pop(name, None)
del signal.pthread_sigmask
sys.meta_path.insert(0, Blocked())
import structviews
for module in pkgutil.walk_packages(structviews.__path__, "structviews."):
    if module.name not in {(*OTHERS, "structviews.__main__")}:
        importlib.import_module(module.name)
"""


def test_everything_is_imported_without_what_windows_lacks():
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", IMPORTS], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
