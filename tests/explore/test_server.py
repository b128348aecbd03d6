"""The page itself: who can reach it, what it takes, and what it shows in a browser."""

import contextlib
import functools
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import jax
import psutil
import pytest

pytest.importorskip("marimo")

import bellsketch as bs
from bellsketch.cli import main
from bellsketch.explore import server


def start():
    """The command in another process, and where its page is."""
    command = [sys.executable, "-m", "bellsketch", "explore", "--port", "0", "--no-browser"]
    # Ctrl-C ends it even if these tests run in the background of a shell, where it is ignored.
    heard = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=heard)
    return child, re.search(r"http://127\.0\.0\.1:\d+", child.stdout.readline()).group()


@pytest.fixture(scope="module")
def address():
    child, address = start()
    try:
        yield address
    finally:
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=30)
    assert child.returncode == 130


@contextlib.contextmanager
def driven_page():
    playwright = pytest.importorskip("playwright.sync_api")
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no Chromium here")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        yield opened.new_page()
        opened.close()


def ask(url, data=None, **headers):
    request = urllib.request.Request(url, data, {name.replace("_", "-"): value for name, value in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


class TestReach:
    def test_loopback_only(self):
        with server.listen(0) as opened:
            host, port = opened.getsockname()
            assert host == "127.0.0.1"
            elsewhere = {
                entry.address
                for entries in psutil.net_if_addrs().values()
                for entry in entries
                if entry.family == socket.AF_INET and not entry.address.startswith("127.")
            }
            for other in elsewhere:
                with socket.socket() as caller:
                    caller.settimeout(2)
                    assert caller.connect_ex((other, port)) != 0

    def test_what_is_served_is_that_socket(self, monkeypatch):
        """Neither uvicorn nor marimo is told any other address."""
        served = {}

        def run(self, sockets=None):
            served.update(host=self.config.host, sockets=sockets, quick=jax.config.read(server.QUICK_COMPILES))

        monkeypatch.setattr("uvicorn.Server.run", run)
        monkeypatch.setattr(server, "no_more_turns", lambda: True)  # or nobody in this process could compute
        monkeypatch.setattr("webbrowser.open", lambda url: served.update(opened=url))
        assert main(["explore", "--port", "0"]) == 0
        assert served["host"] == "127.0.0.1"
        assert len(served["sockets"]) == 1
        assert served["quick"]
        assert not jax.config.read(server.QUICK_COMPILES)
        assert served["opened"].startswith("http://127.0.0.1:")
        served.clear()
        assert main(["explore", "--port", "0", "--no-browser"]) == 0
        assert "opened" not in served

    def test_port(self, capsys):
        with server.listen(0) as opened:
            port = opened.getsockname()[1]
            assert main(["explore", "--port", str(port), "--no-browser"]) == 2
        error = " ".join(capsys.readouterr().err.split())
        assert re.search(rf"error: port={port}: cannot be listened on .*; pass another one, or 0", error)
        with pytest.raises(bs.InputError, match="port=70000: must lie between 0 and 65535"):
            server.listen(70_000)

    def test_other_hosts_and_pages_are_refused(self, address):
        assert ask(address) == 200
        assert ask(address, Host="example.org") == 403
        assert ask(address, Origin="http://example.org") == 403
        assert ask(address, Origin=address) == 200

    def test_other_pages_cannot_have_it_in_them(self, address):
        """Browsers send no origin with what they fetch for an image or a frame."""
        with urllib.request.urlopen(address, timeout=30) as answer:
            assert answer.headers["X-Frame-Options"] == "DENY"
        assert ask(f"{address}/sse?session_id=mine") == 403
        assert ask(f"{address}/favicon.ico", Sec_Fetch_Site="cross-site") == 403
        assert ask(address, Sec_Fetch_Site="cross-site") == 200  # a link that was followed
        assert ask(f"{address}/api/kernel/set_ui_element_value", b"{}") == 403

    def test_no_code_is_taken(self, address):
        """Not by the paths of marimo's editor, nor by any other."""
        code = json.dumps({"cellIds": ["a"], "codes": ["1/0"], "code": "1/0", "path": "x.py", "contents": "x"})
        paths = (
            "kernel/run",
            "kernel/scratchpad/run",
            "kernel/instantiate",
            "kernel/save",
            "files/create",
            "packages/add",
        )
        for path in paths:
            assert ask(f"{address}/api/{path}", code.encode(), Content_Type="application/json") == 403

    def test_without_the_guard_marimo_itself_is_in_run_mode(self):
        from marimo._session.model import SessionMode

        page = server.application(1).__closure__
        (built,) = [cell.cell_contents for cell in page if hasattr(cell.cell_contents, "routes")]
        (inner,) = [route.app for route in built.routes if hasattr(getattr(route, "app", None), "state")]
        assert inner.state.session_manager.mode == SessionMode.RUN
        assert not inner.state.session_manager.include_code


@pytest.mark.slow
@pytest.mark.parametrize("wait", [2.5, 0.2])
def test_interrupted(wait):
    """With a page open, at work or not: it ends at once and without complaint."""
    with driven_page() as page:
        child, address = start()
        page.goto(address)
        page.wait_for_selector("#summary", timeout=60_000)  # the certificate is not there yet
        page.get_by_role("slider").nth(0).focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(1_000 * wait)
        child.send_signal(signal.SIGINT)
        said, _ = child.communicate(timeout=25)
    assert (child.returncode, said) == (130, "")


def test_a_missing_extra(tmp_path):
    script = "import sys; sys.modules['marimo'] = None; from bellsketch.cli import main; sys.exit(main(['explore']))"
    child = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert child.returncode == 2
    expected = "error: bellsketch explore needs marimo, which is not installed: pip install 'bellsketch[explore]'"
    assert " ".join(child.stderr.split()) == expected


def test_in_a_browser(address):
    """Another m is other numbers and another picture; nothing is fetched from elsewhere; nonsense is answered."""
    with driven_page() as page:
        said, asked, posted = [], [], []
        page.on("console", lambda message: message.type == "error" and said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.on("request", lambda request: request.method == "POST" and posted.append(request))
        page.on("websocket", lambda connection: asked.append(connection.url.replace("ws:", "http:")))
        page.goto(address)
        page.wait_for_selector("#verdict", timeout=60_000)
        first = shown(page)
        page.get_by_role("slider").nth(0).focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_function(
            "before => !document.querySelector('#verdict')?.innerText.includes(before)", arg=first[3]
        )
        page.wait_for_function(PICTURES_DIFFER, arg=first[0])
        second = shown(page)
        posted = [request for request in posted if request.url.endswith("set_ui_element_value")]
        send(page, posted[-1], 10**7)
        page.wait_for_selector("#problem", timeout=30_000)
        problem = page.inner_text("#problem")
        send(page, posted[-1], "__import__('os').abort()")
        send(page, posted[-1], 5)
        page.wait_for_function("document.querySelector('#summary')?.innerText.includes('5 sigmoid')", timeout=30_000)
    assert min(first[1] + second[1]) > 300
    assert "20 sigmoid features" in first[2][0]
    assert "21 sigmoid features" in second[2][0]
    assert first[2][1] != second[2][1]
    assert problem == "num_features=10000000: must lie between 1 and 80"
    assert said == []
    assert [url for url in asked if not url.startswith(("data:", "blob:", address))] == []


PICTURES_DIFFER = """before => {
  const now = [...document.querySelectorAll('img')].map(image => image.src);
  return now.length == before.length && now.every((source, i) => source != before[i]);
}"""


def shown(page):
    """Where pictures come from, how wide they are, what is said of the settings and in numbers, and the verdict."""
    page.wait_for_function("[...document.querySelectorAll('img')].every(image => image.naturalWidth > 0)")
    sources = page.eval_on_selector_all("img", "images => images.map(image => image.src)")
    widths = page.eval_on_selector_all("img", "images => images.map(image => image.naturalWidth)")
    return sources, widths, (page.inner_text("#summary"), page.inner_text("#numbers")), page.inner_text("#verdict")


def send(page, request, value):
    """A value for the same widget, past the widget."""
    body = json.dumps(json.loads(request.post_data) | {"values": [value]})
    names = ("marimo-session-id", "marimo-server-token", "content-type")
    headers = {name: request.headers[name] for name in names if name in request.headers}
    script = "async ([url, headers, body]) => (await fetch(url, {method: 'POST', headers, body})).status"
    assert page.evaluate(script, [request.url, headers, body]) == 200
