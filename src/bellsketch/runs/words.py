"""Numbers as people say them."""


def duration(seconds: float) -> str:
    """In the two largest units."""
    minutes, hours, days = seconds / 60, seconds / 3600, seconds / 86400
    if days >= 2:
        return f"{days:,.1f} days"
    if hours >= 1:
        return f"{int(hours)} h {int(minutes) % 60:02d} min"
    return f"{int(minutes)} min {int(seconds) % 60:02d} s" if minutes >= 1 else f"{seconds:.0f} s"


def short(number: float) -> str:
    """Three digits and a unit."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"
