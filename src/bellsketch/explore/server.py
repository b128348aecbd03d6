"""Serving the page: to this machine only, and without taking any code from it."""

import socket
import webbrowser
from collections.abc import Awaitable, Callable, MutableMapping
from importlib.resources import files
from typing import Any

import jax
import marimo
import uvicorn

from bellsketch.core.errors import InputError
from bellsketch.explore.turns import no_more_turns

LOOPBACK = "127.0.0.1"
"""The only address that is listened on: nobody else can reach it."""
PORT = 2718
GRACE = 2
"""Seconds for open pages to be told that this is the end."""
QUICK_COMPILES = "jax_disable_most_optimizations"
"""Every m is another program, which runs for less time than it takes to compile: half of that time."""
POSTS = ("/api/kernel/set_ui_element_value",)
"""What a page may send: values of widgets."""
CLOSED = ("/sse", "/api/")
"""What no page asks for by GET: the first would start to compute, for whatever page it is an image of."""
HIDDEN = [(b"x-frame-options", b"DENY"), (b"cross-origin-resource-policy", b"same-origin")]
"""So that no other page can have this one in it."""

Scope = MutableMapping[str, Any]
Application = Callable[[Scope, Any, Any], Awaitable[None]]


def listen(port: int = PORT) -> socket.socket:
    """A socket that this machine alone can connect to; port 0 finds a free one."""
    if not 0 <= port <= 65_535:
        raise InputError(f"port={port}: must lie between 0 and 65535; 0 finds a free one")
    opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((LOOPBACK, port))
    except OSError as error:
        opened.close()
        raise InputError(f"port={port}: cannot be listened on ({error.strerror}); pass another one, or 0") from None
    opened.listen()
    return opened


def address(opened: socket.socket) -> str:
    """Where the page is."""
    host, port = opened.getsockname()
    return f"http://{host}:{port}"


def application(port: int) -> Application:
    """The page in marimo's run mode, which has no editor and runs the cells of our file only."""
    file = str(files("bellsketch.explore") / "app.py")
    page: Any = marimo.create_asgi_app(quiet=True, include_code=False).with_app(path="", root=file).build()
    return _guarded(page, port)


def _guarded(page: Application, port: int) -> Application:
    """Requests that name another host or come from another page are refused, and so is all that is not needed.

    A page elsewhere on the web could otherwise talk to this one through the reader's browser.
    """
    hosts = {f"{name}:{port}" for name in (LOOPBACK, "localhost")}
    origins = {f"http://{host}" for host in hosts}

    async def guard(scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await _live(page, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        reads = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        # Browsers name the origin of all that can do something; of what only reads, whether it is for another page.
        origin = headers.get("origin") in (origins | {None} if reads else origins)
        foreign = headers.get("sec-fetch-site") in ("cross-site", "same-site") and scope["path"] != "/"
        needed = scope["type"] == "websocket" or scope["path"] in POSTS
        needed |= reads and not scope["path"].startswith(CLOSED)
        if headers.get("host") in hosts and origin and needed and not foreign:
            await page(scope, receive, _with_headers(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain")]})
            await send({"type": "http.response.body", "body": b"This page takes no such requests."})

    return guard


def _with_headers(send: Any) -> Any:
    async def sending(message: Scope) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *HIDDEN]}
        await send(message)

    return sending


async def _live(page: Any, receive: Any, send: Any) -> None:
    """From start to end, where marimo is told to close what it has open: it is not told so where it is mounted."""
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    for route in page.routes:
        await route.app.state.session_manager.shutdown()
    await send({"type": "lifespan.shutdown.complete"})


def serve(opened: socket.socket, *, browser: bool) -> None:
    """Serve the page on that socket until interrupted."""
    port = opened.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(application(port), log_level="warning", timeout_graceful_shutdown=GRACE))
    if browser:
        webbrowser.open(address(opened))  # the socket listens already, so it waits for the server
    before = jax.config.read(QUICK_COMPILES)
    jax.config.update(QUICK_COMPILES, True)  # of this process, which does nothing else
    try:
        server.run(sockets=[opened])
    finally:
        no_more_turns()
        jax.config.update(QUICK_COMPILES, before)
