"""``bellsketch explore``."""

import dataclasses

from rich.console import Console

from bellsketch.explore.server import PORT, address, listen, serve


@dataclasses.dataclass(frozen=True)
class Explore:
    """A page on which to try out features, slopes, ranges, ridges and intercepts: operator, distributions, errors.

    It is served to this machine only. Example: bellsketch explore --port 0 --no-browser
    """

    port: int = PORT
    """Of the page; 0 finds a free one."""
    browser: bool = True
    """Open the page in a browser."""

    def __call__(self) -> None:
        with listen(self.port) as opened:
            Console().print(
                f"The explorer is at {address(opened)}, for this machine only. Ctrl-C ends it.", soft_wrap=True
            )
            serve(opened, browser=self.browser)
