"""Errors that a user can mend."""


class InputError(ValueError):
    """Something the user gave cannot be used.

    The message is one line that names the value, the place (``file:line`` where there is one)
    and the remedy. The command line prints it without a traceback and exits with code 2.
    """
