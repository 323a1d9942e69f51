"""What a file of Python's pickles may do to those who read it."""

from pathlib import Path


class Touch:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)
