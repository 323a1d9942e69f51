"""Numbers as people say them."""


def counted(n: int, one: str, several: str = "") -> str:
    """How many there are of something: ``1 sentence``, ``3,156 sentences``.

    Args:
        n: the number.
        one: the noun for one of them.
        several: the noun for any other number; ``one`` with an s if empty.
    """
    return f"{n:,} {one if n == 1 else several or f'{one}s'}"


def duration(seconds: float) -> str:
    """A time in its two largest units: ``8 s``, ``3 min 05 s``, ``2 h 05 min``, ``3 d 04 h``."""
    whole, minutes, hours = round(seconds), round(seconds / 60), round(seconds / 3600)
    if whole < 60:
        return f"{whole} s" if whole else "less than 1 s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60:02} min"
    return f"{hours // 24} d {hours % 24:02} h"
