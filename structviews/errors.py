"""Errors that the user can fix."""


class InputError(ValueError):
    """Invalid input from the user.

    The message is one line that names the value, the place (``file:line`` where known) and the remedy.
    The command line prints it without a traceback and exits with code 2.
    """

    def __str__(self) -> str:
        """The message; line feeds, which only names and values can bring, are shown as such."""
        return super().__str__().replace("\n", "\\n")


def interrupted(error: BaseException | None) -> bool:
    """Whether an error is an interrupt, or what a library made of one, such as an ImportError."""
    while error and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None
