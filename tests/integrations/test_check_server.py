"""`factgym serve check`: the page and the JSON API give the verdicts of `factgym check`, and refuse what they should."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs factgym[serve]")
pytest.importorskip("uvicorn", reason="needs factgym[serve]")

from commands import run_factgym
from starlette.testclient import TestClient

from factgym.agents.resolve import object_agent
from factgym.check.checker import Checker
from factgym.check.documents import CheckedDocuments
from factgym.core.errors import ConfigError
from factgym.core.policy import PolicyError
from factgym.integrations.check_server import CheckLimits, CheckServer
from factgym.integrations.frameworks import Shell

URL = "http://127.0.0.1"
TOKEN = "a-token-of-some-length"
REFUNDS = "# Refunds\n\nRefunds are paid within 14 days. A <b>refund</b> above 500 euros needs an approval.\n"
TRAVEL = "# Travel\n\nFlights must be booked 14 days in advance.\n"
TEXT = "Refunds are paid within 30 days. A refund above 500 euros needs an approval."


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("documents")
    for name, text in {"refunds": REFUNDS, "travel": TRAVEL}.items():
        (root / name).mkdir()
        (root / name / f"{name}.md").write_text(text, "utf-8")
    (root / "secret.md").write_text("# Secret\n\nThe secret word is Velmora.\n", "utf-8")
    return root


@pytest.fixture(scope="module")
def checkers(folders: Path) -> dict[str, Checker]:
    return {name: Checker(CheckedDocuments(folders / name)) for name in ("refunds", "travel")}


@pytest.fixture
def client(checkers: dict[str, Checker]) -> Iterator[TestClient]:
    limits = CheckLimits(max_text_chars=300, max_claims=3)
    with TestClient(CheckServer(checkers, limits=limits).app, base_url=URL) as client:
        yield client


class Form(HTMLParser):
    """The values of a page's form, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.values: dict[str, str] = {}
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        if tag == "input":
            self.values[dict(attrs)["name"]] = dict(attrs).get("value") or ""

    def handle_data(self, data: str) -> None:
        self.text += data


def send_form(client: TestClient, **values: str) -> Any:
    return client.post("/", data={"key": Form(client.get("/").text).values["key"], "documents": "refunds", **values})


def test_the_api_gives_what_the_command_prints(client: TestClient, folders: Path) -> None:
    answer = client.post("/check", json={"text": TEXT, "documents": "refunds"})
    assert answer.status_code == 200
    done = run_factgym(["check", "-", "--docs", "refunds", "--json"], folders, text=TEXT)
    assert done.returncode == 0, done.stderr
    expected = json.loads(done.stdout)
    got = answer.json()
    # The file's name is that of standard input there.
    assert got["answers"][0] | {"id": "answer"} == expected["answers"][0]
    assert got["documents"] == expected["documents"] and got["agent"] == expected["agent"]
    assert [claim["status"] for claim in got["answers"][0]["claims"]] == ["contradicted", "supported"]


def test_the_page_shows_verdicts_and_quotes_and_gives_the_text_back(client: TestClient) -> None:
    hostile = "Refunds are paid within 30 days </textarea><script>alert(1)</script> & more."
    page = send_form(client, text=hostile, question="When?")
    assert page.status_code == 200
    form = Form(page.text)
    assert "script" not in form.tags and form.tags.count("textarea") == 1
    assert hostile in form.text and form.values["question"] == "When?"
    assert re.search(r"<mark[^>]*>Refunds are paid within 14 days", page.text)
    # Most words of this claim are markup, which no document has: its value is not held against that of the sentence.
    assert "1 claim: 1 unsupported." in form.text


def test_documents_are_chosen_by_label_and_never_by_path(client: TestClient, folders: Path) -> None:
    for name in (str(folders / "secret.md"), "../secret.md", "refunds/../../secret.md", "refund", "", "\ud800"):
        answer = client.post(
            "/check",
            content=json.dumps({"text": "The secret word is Velmora.", "documents": name}),
            headers={"Content-Type": "application/json"},
        )
        assert answer.status_code == 422 and "There are: refunds, travel" in answer.json()["detail"], name
        page = send_form(client, text="The secret word is Velmora.", documents=name.replace("\ud800", "x"))
        assert page.status_code == 422 and 'role="alert"' in page.text
    assert client.post("/check", json={"text": TEXT}).status_code == 422
    travel = client.post("/check", json={"text": "Flights must be booked 14 days in advance.", "documents": "travel"})
    assert [claim["status"] for claim in travel.json()["answers"][0]["claims"]] == ["supported"]


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ({"text": "x" * 301}, 422, "the limit is 300"),
        ({"text": "Refunds are paid late. " * 4}, 422, "4 claims; the limit is 3"),
        ({"text": "Hello."}, 422, "no sentence"),
        ({"text": 5}, 422, "text: "),
        ({"text": TEXT, "path": "/etc/passwd"}, 422, "path: "),
        ({"text": TEXT, "question": "why? " * 1000}, 422, "question: more than"),
        ([], 422, "body must be an object"),
    ],
)
def test_bad_requests_are_refused_with_a_reason(client: TestClient, body: Any, status: int, reason: str) -> None:
    if isinstance(body, dict):
        body.setdefault("documents", "refunds")
    answer = client.post("/check", json=body)
    assert answer.status_code == status and reason in answer.json()["detail"]


def test_bodies_and_types_are_checked(client: TestClient) -> None:
    json_type = {"Content-Type": "application/json"}
    assert client.post("/check", content=b"{" * 100_000, headers=json_type).status_code == 413
    assert client.post("/check", content=b"[" * 50_000, headers=json_type).status_code == 400
    assert client.post("/check", content=b"\xff", headers=json_type).status_code == 400
    # The types that a page of another site can send without asking.
    body = json.dumps({"text": TEXT, "documents": "refunds"})
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert client.post("/check", content=body, headers={"Content-Type": kind}).status_code == 415
    assert client.post("/", data={"text": TEXT, "documents": "refunds", "key": "x"}).status_code == 403
    assert client.get("/check").status_code == 405 and client.get("/secret.md").status_code == 404


def test_foreign_hosts_are_refused_without_a_token(checkers: dict[str, Checker]) -> None:
    client = TestClient(CheckServer(checkers).app, base_url=URL)
    for host in ("localhost:8000", "127.0.0.1", "[::1]:8000"):
        assert client.get("/health", headers={"Host": host}).status_code == 200, host
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8000", "192.168.0.7"):
        assert client.get("/health", headers={"Host": host}).status_code == 421, host
    headers = client.get("/").headers
    assert headers["Content-Security-Policy"] == "frame-ancestors 'none'" and headers["Cache-Control"] == "no-store"


def test_a_token_guards_every_address(checkers: dict[str, Checker]) -> None:
    client = TestClient(CheckServer(checkers, shell=Shell(token=TOKEN)).app, base_url="http://check.example")
    basic = "Basic " + base64.b64encode(f"me:{TOKEN}".encode()).decode()
    for path in ("/", "/health", "/nothing"):
        for wrong in ("", "Bearer", f"Bearer {TOKEN}x", "Basic ???", f"Basic {TOKEN}", TOKEN):
            answer = client.get(path, headers={"Authorization": wrong})
            assert answer.status_code == 401 and answer.headers["WWW-Authenticate"].startswith("Basic"), wrong
    for right in (f"Bearer {TOKEN}", basic):
        assert client.get("/health", headers={"Authorization": right}).status_code == 200
    assert TOKEN not in client.get("/", headers={"Authorization": basic}).text
    with pytest.raises(ConfigError, match="16 or more"):
        Shell(token="short")


class WaitingPolicy:
    """A policy that waits for the test."""

    threads = 4

    def __init__(self) -> None:
        self.called, self.go = threading.Semaphore(0), threading.Event()

    def act(self, messages: Any, tools: Any) -> str:
        self.called.release()
        assert self.go.wait(60)
        return "I do not know."


def test_texts_beyond_the_limits_are_refused_and_health_answers_meanwhile(checkers: dict[str, Checker]) -> None:
    policy = WaitingPolicy()
    checker = Checker(checkers["refunds"].documents, object_agent(policy))
    server = CheckServer({"refunds": checker}, limits=CheckLimits(max_running=1, max_waiting=0))
    with TestClient(server.app, base_url=URL) as client:
        answers: list[Any] = []
        body = {"text": "Refunds are paid within 14 days."}
        thread = threading.Thread(target=lambda: answers.append(client.post("/check", json=body)))
        thread.start()
        assert policy.called.acquire(timeout=60)
        refused = client.post("/check", json=body)
        assert refused.status_code == 503 and refused.headers["Retry-After"]
        assert client.get("/health").json()["status"] == "ok"
        policy.go.set()
        thread.join(60)
        assert answers[0].json()["answers"][0]["claims"][0]["status"] == "unsupported"
        policy.go.clear()
        server.limits = CheckLimits(max_running=1, max_waiting=0, max_seconds=1)
        assert client.post("/check", json=body).status_code == 504
        policy.go.set()


class FailingPolicy:
    def act(self, messages: Any, tools: Any) -> str:
        raise PolicyError("connection", "no server there", fatal=True)


def test_a_failing_agent_is_an_answer(checkers: dict[str, Checker]) -> None:
    checker = Checker(checkers["refunds"].documents, object_agent(FailingPolicy()))
    with TestClient(CheckServer({"refunds": checker}).app, base_url=URL) as client:
        answer = client.post("/check", json={"text": TEXT})
        assert answer.status_code == 502 and "no server there" in answer.json()["detail"]
        page = send_form(client, text=TEXT)
        assert page.status_code == 502 and "no server there" in page.text


def test_the_command_refuses_what_cannot_be_served(folders: Path) -> None:
    cases = [
        (["refunds", "--host", "0.0.0.0"], "--token"),
        (["refunds", "--host", "0.0.0.0", "--token", "short"], "16 or more"),
        (["refunds", "missing"], "missing"),
        (["refunds", "./refunds"], "are called 'refunds'"),
        (["refunds", "--agent", "oracle"], "needs a gold label"),
    ]
    for words, reason in cases:
        done = run_factgym(["serve", "check", *words], folders)
        assert done.returncode == 2 and reason in done.stderr, (words, done.stderr)
