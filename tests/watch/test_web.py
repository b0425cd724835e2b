"""The page in a browser: read-only, on loopback or behind a token, fed as things change, and fit for everybody."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import urllib.request
from contextlib import contextmanager

import pytest
import uvicorn
from starlette.testclient import TestClient

from potluck.core.errors import DataError, SettingsError
from potluck.watch import web
from potluck.watch.run_view import Person, RunView, RunWatcher
from tests.browser import SCHEMES, WIDTHS, browser, needs_browser, violations
from tests.watch.folders import row, write_rows, write_run

LOCAL = frozenset({"localhost", "127.0.0.1", "testserver"})


def client(token=None, hosts=LOCAL, look=RunView):
    return TestClient(web.application(look, 0.01, token, hosts))


def test_the_page_holds_everything_and_may_load_nothing_else():
    answer = client().get("/")
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for kind, tag in (("script-src", "script"), ("style-src", "style")):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", answer.text, re.S)
        assert f"{kind} {web.hash_of(text)};" in policy
    assert not re.findall(r'(?:src|href)="(?!#|data:)', answer.text)
    assert "innerHTML" not in answer.text, "names come from other machines"
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("method", ["post", "put", "delete", "patch"])
@pytest.mark.parametrize("path", ["/", "/events"])
def test_nothing_can_be_changed(method, path):
    assert getattr(client(), method)(path).status_code == 405


@pytest.mark.parametrize("path", ["/", "/events"])
def test_with_a_token_nothing_is_told_without_it(path):
    asked = client(token="secret", hosts=None)
    for address in (path, f"{path}?token=", f"{path}?token=secre", f"{path}?token=geheim%C3%A9"):
        answer = asked.get(address)
        assert (answer.status_code, "A token is needed" in answer.text) == (403, True)
    assert asked.get("/?token=secret").status_code == 200


def test_another_sites_name_does_not_lead_here():
    assert client().get("/", headers={"Host": "evil.example"}).status_code == 421
    assert client().get("/events", headers={"Host": "evil.example:80"}).status_code == 421
    assert client(hosts=None).get("/", headers={"Host": "lab.example"}).status_code == 200


async def first(board, count):
    """What the first events say while the board is being read."""
    reading = asyncio.create_task(board.keep_reading())
    events, found = board.events(), []
    try:
        async for event in events:
            found.append(event)
            if len(found) == count:
                return found
    finally:
        await events.aclose()
        reading.cancel()
    return found


def test_whoever_looks_is_told_when_something_changes():
    views = iter([RunView("x", now=1.0), RunView("x", now=2.0), RunView("x", now=3.0, round=1)])
    looked = []

    def look():
        looked.append(next(views, RunView("x", now=4.0, round=1)))
        return looked[-1]

    found = asyncio.run(first(web.Board(look, 0.001), 2))
    told = [json.loads(event.removeprefix("data: ")) for event in found]
    assert [each["round"] for each in told] == [0, 1], "the time of day alone is no news"
    assert all(event.endswith("\n\n") for event in found)
    assert len(looked) >= 3


def test_who_waits_long_hears_that_somebody_is_there(monkeypatch):
    monkeypatch.setattr(web, "HEARTBEAT", 0.02)
    assert asyncio.run(first(web.Board(RunView, 0.01), 3))[1:] == [": still here\n\n"] * 2


def test_a_folder_that_cannot_be_read_is_told():
    def look():
        raise DataError("somebody else's")

    (event,) = asyncio.run(first(web.Board(look, 0.01), 1))
    assert json.loads(event.removeprefix("data: ")) == {"kind": "error", "why": "somebody else's"}


def test_nothing_is_read_while_nobody_looks():
    looked = []

    async def wait():
        board = web.Board(lambda: looked.append(1), 0.001)
        task = asyncio.create_task(board.keep_reading())
        await asyncio.sleep(0.05)
        task.cancel()

    asyncio.run(wait())
    assert looked == []


def test_only_so_many_may_look_at_once(monkeypatch):
    monkeypatch.setattr(web, "LISTENERS", 0)
    assert client().get("/events").status_code == 503


@pytest.mark.parametrize(
    ("host", "local"),
    [("localhost", True), ("127.0.0.1", True), ("127.3.2.1", True), ("::1", True), ("0.0.0.0", False), ("lab", False)],
)
def test_which_addresses_only_this_machine_reaches(host, local):
    assert web.is_loopback(host) is local


def test_a_port_that_is_taken_is_said():
    with web.listen("127.0.0.1", 0) as taken, pytest.raises(SettingsError, match="Nobody can listen at"):
        web.listen("127.0.0.1", taken.getsockname()[1])


@pytest.mark.parametrize(
    ("host", "token", "expected"),
    [
        ("127.0.0.1", None, r"http://127\.0\.0\.1:\d+/$"),
        ("127.0.0.1", "mine", r"http://127\.0\.0\.1:\d+/\?token=mine$"),
        ("0.0.0.0", None, r"http://0\.0\.0\.0:\d+/\?token=[\w-]{22}$"),
        ("0.0.0.0", "mine", r"http://0\.0\.0\.0:\d+/\?token=mine$"),
    ],
)
def test_where_others_reach_it_a_token_is_drawn(monkeypatch, host, token, expected):
    served, addresses = [], []
    monkeypatch.setattr(uvicorn.Server, "run", lambda server, sockets: served.append(server.config.app))
    web.serve(RunView, addresses.append, host, 0, token, 1.0)
    assert re.match(expected, addresses[0])
    assert TestClient(served[0], base_url="http://localhost").get("/").status_code == (
        403 if "token" in expected else 200
    )


@contextmanager
def serving(look, token=None):
    """The address of a real server in another thread."""
    listening = web.listen("127.0.0.1", 0)
    server = web.server_of(web.application(look, 0.05, token, LOCAL))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(10)
        listening.close()


def test_a_run_that_another_one_writes_is_followed_over_the_wire(tmp_path):
    write_run(tmp_path, row(1, "a", 0.5))
    with serving(RunWatcher(tmp_path).look) as address, urllib.request.urlopen(f"{address}events") as events:
        assert events.headers["content-type"].startswith("text/event-stream")

        def until(round):
            while True:
                line = events.readline().decode()
                if line.startswith("data: ") and (told := json.loads(line[6:]))["round"] == round:
                    return told

        assert until(1)["score"] == 0.5
        write_rows(tmp_path, row(2, "a", 0.75))
        assert until(2)["score"] == 0.75


@pytest.mark.slow
@needs_browser
def test_in_a_browser_it_is_quiet_fits_goes_on_and_can_be_used_by_everybody(tmp_path):
    """Also with names that would be markup, or wider than a phone."""
    evil = '<img src=x onerror="alert(1)">' + "long" * 30
    write_run(
        tmp_path, row(1, evil), row(1, "b", refused="away"), phase="round", doing={"working": 1}, working=[evil],
        out={evil: "<b>late</b>"},
    )  # fmt: skip
    with serving(RunWatcher(tmp_path).look) as address, browser() as opened:
        for width in WIDTHS:
            for scheme in SCHEMES:
                context = opened.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
                told: list[str] = []
                page = context.new_page()
                page.on("console", lambda message, told=told: told.append(message.text))
                page.on("dialog", lambda dialog, told=told: told.append(dialog.message))
                page.goto(address)
                page.wait_for_selector("table")
                assert page.locator("img").count() == 0
                assert page.title() == "FD, seed 3: playing"
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                assert violations(page) == []
                assert told == []
                context.close()
        page = opened.new_page()
        page.goto(address)
        page.wait_for_selector("table")
        write_rows(tmp_path, row(2, "b", 0.9))
        page.get_by_text("round 2 of 10").first.wait_for(timeout=10_000)


def test_what_is_told_can_be_sent():
    view = RunView("x", people=[Person("a", None, 0, 0, "")], points=[(1, 0.5)], state="playing", now=1.0)
    json.dumps(view.to_json(), allow_nan=False)
