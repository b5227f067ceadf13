"""The page of a run in a real headless Chromium: it shows the episodes, answers the keyboard, and obeys nobody else."""

from __future__ import annotations

import http.client
import json
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import fake_runs
import pytest
from chrome import Chromium

from factgym.agents.runs.read import read_run
from factgym.benchmarks.viewer.live import PageServer, state_of
from factgym.benchmarks.viewer.page import write_comparison, write_page
from factgym.integrations.frameworks import Shell

N = 300
TASKS, K = 30, 4


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    run = fake_runs.write_run(tmp_path_factory.mktemp("run"), [fake_runs.episode(i) for i in range(N)])
    return write_page(run).as_uri()


def _group_run() -> list[dict[str, Any]]:
    return [episode for i in range(TASKS) for episode in fake_runs.group(i, K)]


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_page(fake_runs.write_run(tmp_path_factory.mktemp("groups"), _group_run())).as_uri()


def _text(browser: Chromium, selector: str) -> str:
    return str(browser.run(f"document.querySelector({selector!r})?.textContent ?? ''"))


def _shown(browser: Chromium) -> str:
    return _text(browser, ".dhead .id")


def test_the_overview_comes_first(browser: Chromium, page: str) -> None:
    browser.open(page)
    assert browser.run("document.getElementById('episodes').hidden") is True
    assert "Mean reward" in _text(browser, "#overview")
    assert browser.run("document.querySelectorAll('.histogram .column').length") == 20


def test_the_list_holds_the_episodes_but_draws_only_those_in_view(browser: Chromium, page: str) -> None:
    browser.open(page + "#episodes")
    assert _text(browser, "#count") == f"{N} episodes"
    assert _shown(browser) == "multihop/00000"
    assert 5 < browser.run("document.querySelectorAll('.item').length") < 40
    browser.run("document.getElementById('list').scrollTop = 1e9")
    browser.wait(f"document.getElementById('row{N - 1}')")


def test_an_address_opens_an_episode_in_full(browser: Chromium, page: str) -> None:
    browser.open(page + "#e=3")
    assert _shown(browser) == "multihop/00003"
    assert _text(browser, ".answer mark.u") == "within 10 business days"
    assert _text(browser, ".passage mark.g").startswith("A claim above the standard limit")
    assert _text(browser, ".parts tfoot").startswith("total")
    assert browser.run("document.querySelectorAll('.step.policy').length") == 4
    assert browser.run("document.querySelector('.step.policy details').open") is False


def test_keys_move_through_the_episodes(browser: Chromium, page: str) -> None:
    browser.open(page)
    browser.press("o")
    browser.wait("!document.getElementById('episodes').hidden")
    for key, expected in (("j", 1), ("j", 2), ("k", 1)):
        browser.press(key)
        assert _shown(browser) == f"multihop/{expected:05d}"
    assert browser.run("location.hash") == "#e=1"
    browser.press("x")
    assert browser.run("document.querySelector('.step.policy details').open") is True
    browser.press("/")
    browser.wait("document.activeElement.id === 'q'")
    browser.press("j")
    assert browser.run("document.getElementById('q').value") == "j"
    browser.press("Escape")
    browser.press("?")
    assert browser.run("document.getElementById('keys').open") is True
    browser.press("Escape")


def test_filters_agree_with_the_records(browser: Chromium, page: str) -> None:
    episodes = [fake_runs.episode(i) for i in range(N)]

    def expect(address: str, count: int) -> None:
        browser.open(page + address)
        assert _text(browser, "#count").split()[0] == str(count)

    metrics = [episode["reward"]["metrics"] for episode in episodes if not episode["error"]]
    pair = [m for m in metrics if (m["gold_verdict"], m["verdict"]) == ("contradicted", "supported")]
    expect("#gold=contradicted&verdict=supported", len(pair))
    expect("#verdict=", sum(m["verdict"] is None for m in metrics))
    expect("#state=error", sum(episode["error"] is not None for episode in episodes))
    totals = [episode["reward"]["total"] for episode in episodes if not episode["error"]]
    expect("#min=0.2&max=0.7", sum(0.2 - 1e-9 <= total <= 0.7 + 1e-9 for total in totals))
    codes = [{turn["error"] for turn in episode["turns"]} for episode in episodes]
    expect("#cause=invalid_json", sum("invalid_json" in errors for errors in codes))
    quotes = [episode["reward"]["components"]["quote"] for episode in episodes if not episode["error"]]
    expect("#value=quote&max=0.5", sum(quote <= 0.5 for quote in quotes))
    browser.open(page + "#value=coverage&sort=low")
    assert browser.run("document.querySelector('.item .score').textContent") == "0.000"
    browser.open(page + "#sort=low")
    assert float(_text(browser, ".dhead .total b")) == round(min(totals), 3)
    browser.open(page + "#q=nothing-of-the-kind")
    assert "No episode fits" in _text(browser, "#list")


def _spoken(episode: dict[str, Any]) -> str:
    """What a reader of the transcript sees: the task, and every message after it."""
    view = [episode["task_view"]["question"], episode["task_view"]["answer"], episode["task"]]
    metrics = (episode["reward"] or {}).get("metrics", {})
    messages = [message["content"] for message in episode["messages"][1:]]
    return "\n".join([*view, *map(str, metrics.values()), *messages]).lower()


@pytest.mark.parametrize(
    "words", ["severity BREACH", "comparing wording", "E9 annex", "\u00e9T\u00c9 <b>", 'say "x\\y"']
)
def test_search_reaches_inside_transcripts(browser: Chromium, tmp_path: Path, words: str) -> None:
    episodes = [fake_runs.episode(i) for i in range(60)]
    for i in (7, 41):
        episodes[i]["messages"][2]["content"] += '\nL\u2019\u00c9t\u00e9 <b> I say "x\\y".'
    page = write_page(fake_runs.write_run(tmp_path, episodes)).as_uri()
    browser.open(f"{page}#q={quote(words)}")
    browser.wait("document.getElementById('list').ariaBusy === 'false'")
    expected = [episode["task"] for episode in episodes if all(w in _spoken(episode) for w in words.lower().split())]
    assert 0 < len(expected) < 60
    assert _text(browser, "#count") == f"{len(expected)} of 60 episodes"
    tasks = browser.run("[...document.querySelectorAll('.item .id')].map((node) => node.textContent)")
    assert tasks == expected[: len(tasks)]
    assert browser.run("CSS.highlights.get('search').size") > 0


def test_keys_and_instructions_are_no_transcript(browser: Chromium, page: str) -> None:
    browser.open(page + "#q=assistant")
    browser.wait("document.getElementById('list').ariaBusy === 'false'")
    assert _text(browser, "#count") == f"0 of {N} episodes"


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("compared")
    runs = {}
    for name, episodes in RUNS.items():
        facts = fake_runs.manifest(len(episodes), episodes[0]["agent"])
        runs[name] = read_run(fake_runs.write_run(folder / name, episodes, facts))
    return write_comparison(runs, folder / "page.html").as_uri()


RUNS = {
    "base": [fake_runs.episode(i) for i in range(40)],
    "worse": [fake_runs.episode(i, skill=0.3) for i in range(40)],
    "better": [fake_runs.episode(i, skill=0.95, agent="</script><b>new") for i in range(36)],
}


def _right(episode: dict[str, Any]) -> bool:
    metrics = (episode["reward"] or {"metrics": {"verdict": 0}})["metrics"]
    return metrics["verdict"] == metrics.get("gold_verdict")


def test_runs_are_side_by_side_with_the_same_task_in_each(browser: Chromium, compared: str) -> None:
    browser.open(compared)
    overview = _text(browser, "#overview")
    for name, episodes in RUNS.items():
        totals = [episode["reward"]["total"] for episode in episodes if episode["reward"]]
        assert name in overview and f"{sum(totals) / len(totals):.3f}" in overview
    browser.open(compared + "#e=3")
    rewards = {name: episodes[3]["reward"]["total"] for name, episodes in RUNS.items()}
    assert _text(browser, ".dhead .total b") == f"{rewards['better'] - rewards['base']:+.3f}"
    assert browser.run("[...document.querySelectorAll('.run > h2')].map((node) => node.textContent)") == [
        "base",
        "better",
    ]
    assert browser.run("document.querySelectorAll('.run .told-all').length") == 2
    browser.run("document.querySelectorAll('.sample')[1].click()")
    assert browser.run("location.hash") == "#e=3&b=1"
    assert _text(browser, ".run:last-child > h2") == "worse"
    assert _text(browser, ".dhead .total b") == f"{rewards['worse'] - rewards['base']:+.3f}".replace("-", "\u2212")


def test_changes_between_two_runs_can_be_chosen(browser: Chromium, compared: str) -> None:
    base, worse = RUNS["base"], RUNS["worse"]

    def expect(address: str, count: int) -> None:
        browser.open(compared + address)
        assert _text(browser, "#count") == f"{count} of 40 tasks", address

    pairs = [(a, b) for a, b in zip(base, worse, strict=True) if a["reward"] and b["reward"]]
    broken = sum(_right(a) and not _right(b) for a, b in pairs)
    expect("#b=1&change=broken", broken)
    browser.open(compared)
    assert browser.run("document.querySelector('a[href=\"#b=1&change=broken\"]').textContent") == str(broken)
    quotes = [[run["reward"]["components"]["quote"] for run in pair] for pair in pairs]
    expect("#b=1&value=quote&change=down", sum(b < a for a, b in quotes))
    expect("#change=single", 4)


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("view", ["", "#episodes", "#e=4"])
def test_runs_side_by_side_fit_the_window(browser: Chromium, compared: str, width: int, view: str) -> None:
    browser.resize(width, 800)
    browser.open(compared + view)
    assert browser.run("document.documentElement.scrollWidth") <= width
    detail = "document.getElementById('detail')"
    assert browser.run(f"{detail}.scrollWidth - {detail}.clientWidth") <= 0
    browser.resize(1280, 800)


def test_a_watched_page_follows_its_run(browser: Chromium, tmp_path: Path) -> None:
    episodes = [fake_runs.episode(i) for i in range(6)]
    run = fake_runs.write_run(tmp_path / "run", episodes[:4])
    page = tmp_path / "served" / "index.html"
    page.parent.mkdir()
    server = PageServer(lambda: write_page(run, page, live=True), lambda: state_of([run]), 0, False, Shell().refusal)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browser.origin = f"http://127.0.0.1:{server.server_port}/"
    try:
        browser.open(browser.origin)
        assert _text(browser, ".runfacts li") == "4 episodes"
        browser.wait("version !== null")
        with (run / "episodes.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(episodes[4]) + "\n")
        browser.wait("document.querySelector('.runfacts li')?.textContent === '5 episodes'")
        browser.run("location.hash = '#e=1'")
        browser.wait("version !== null")
        with (run / "episodes.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(episodes[5]) + "\n")
        browser.wait("!document.getElementById('fresh').hidden")
        assert _shown(browser) == episodes[1]["task"], "an open episode is not taken away"
        browser.run("document.getElementById('fresh').click()")
        browser.wait("document.getElementById('count')?.textContent === '6 episodes'")
        assert _shown(browser) == episodes[1]["task"]
        assert browser.complaints() == []
    finally:
        browser.send("Page.navigate", url="about:blank")
        server.shutdown()
        server.server_close()
        browser.events.clear()
        del browser.origin


@pytest.mark.parametrize(("path", "host", "status"), [("/", "evil.example", 421), ("/../secret", "127.0.0.1", 404)])
def test_a_watched_page_is_for_this_machine_alone(tmp_path: Path, path: str, host: str, status: int) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "served").mkdir()
    run = fake_runs.write_run(tmp_path / "run", [fake_runs.episode(1)])
    page = tmp_path / "served" / "index.html"
    with PageServer(lambda: write_page(run, page), lambda: "", 0, False, Shell().refusal) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
        connection.putrequest("GET", path, skip_host=True)
        connection.putheader("Host", host)
        connection.endheaders()
        assert connection.getresponse().status == status
        connection.close()
        server.shutdown()


def test_errors_and_samples_can_be_asked_for(browser: Chromium, page: str, groups: str) -> None:
    browser.open(page + "#episodes")
    assert browser.run("document.getElementById('sample').parentNode.hidden") is True
    episodes = [fake_runs.episode(i) for i in range(N)]
    causes = [episode["error"]["cause"] for episode in episodes if episode["error"]]
    browser.open(page)
    browser.run("document.querySelector('.facts .part a').click()")
    browser.wait("!document.getElementById('episodes').hidden")
    assert _text(browser, "#count").split()[0] == str(max(map(causes.count, causes)))
    assert "infrastructure error" in _text(browser, ".dhead .outcome")
    assert _text(browser, ".fault b") == browser.run("document.getElementById('cause').value").replace("_", " ")
    browser.open(groups + "#sample=2")
    assert _text(browser, "#count") == f"{TASKS} of {TASKS * K} episodes"
    assert browser.run("document.getElementById('cause').parentNode.hidden") is not any(
        episode["error"] for episode in _group_run()
    )


def test_the_samples_of_a_task_are_side_by_side(browser: Chromium, groups: str) -> None:
    episodes = _group_run()
    browser.open(groups + f"#e={K}")
    cards = (
        "[...document.querySelectorAll('.sample')].map((one) => [one.dataset.i, one.querySelector('b').textContent])"
    )
    samples = browser.run(cards)
    expected = [episode["reward"]["total"] if episode["reward"] else None for episode in episodes[K : 2 * K]]
    assert [int(i) for i, _ in samples] == list(range(K, 2 * K))
    assert [float(reward) for _, reward in samples if reward != "\u2013"] == [
        pytest.approx(total, abs=5e-4) for total in expected if total is not None
    ]
    browser.run("document.querySelectorAll('.sample')[2].click()")
    assert browser.run("location.hash") == f"#e={K + 2}"
    assert _text(browser, ".dhead .nth") == "sample 2"
    browser.press("n")
    assert browser.run("location.hash") == f"#e={K + 3}"
    browser.press("n")
    assert browser.run("location.hash") == f"#e={K}", "after the last sample comes the first"


def test_the_widest_groups_come_first(browser: Chromium, groups: str) -> None:
    browser.open(groups + "#sort=spread")
    totals: dict[str, list[float]] = {}
    for episode in _group_run():
        if episode["reward"]:
            totals.setdefault(episode["task"], []).append(episode["reward"]["total"])
    widest = max(max(group) - min(group) for group in totals.values())
    first = totals[_shown(browser)]
    assert max(first) - min(first) == pytest.approx(widest)


def test_a_turn_says_how_its_reply_came_about(browser: Chromium, tmp_path: Path) -> None:
    episode = fake_runs.episode(3)
    completion = episode["turns"][0]["completion"]
    completion |= {"finish_reason": "length", "raw": "raw text", "notes": {"votes": {"supported": 3}}}
    completion["retries"] = [{"cause": "rate_limit", "waited": 1.5}]
    completion["usage"] = {"prompt_tokens": 1234, "completion_tokens": 56}
    episode["turns"][0]["seconds"] = {"model": 2.345, "tool": 0.1}
    browser.open(write_page(fake_runs.write_run(tmp_path, [episode])).as_uri() + "#e=0")
    assert _text(browser, ".step.policy .took") == "1,234 \u2192 56 tokens \u00b7 2.35 s"
    assert "rate limit, waited 1.50 s" in browser.run("document.querySelector('.step.policy .tag.warn').title")
    assert "cut off" in _text(browser, ".step.policy > header .tag.bad")
    assert browser.run("[...document.querySelectorAll('.step.policy details')].some((one) => one.open)") is False
    texts = browser.run(
        "[...document.querySelectorAll('.step.policy:has(.noted) details')].map((one) => one.textContent)"
    )
    assert len(texts) == 4
    assert "as received from the modelraw text" in texts
    assert texts[-1].startswith("notes") and "supported" in texts[-1]


def test_a_column_of_the_histogram_opens_its_episodes(browser: Chromium, page: str) -> None:
    browser.open(page)
    columns = browser.run(
        "[...document.querySelectorAll('.histogram a')].map((a) => [a.getAttribute('href'), a.ariaLabel.split(' ')[0]])"
    )
    assert sum(int(n) for _, n in columns) > N * 0.9
    for address, n in columns:
        browser.run(f"location.hash = {address!r}")
        browser.wait(f"document.getElementById('count').textContent.startsWith('{n} ')")


def test_a_cell_of_the_label_table_opens_its_episodes(browser: Chromium, page: str) -> None:
    browser.open(page)
    count = _text(browser, ".confusion .miss a")
    browser.run("document.querySelector('.confusion .miss a').click()")
    browser.wait("!document.getElementById('episodes').hidden")
    assert _text(browser, "#count") == f"{count} of {N} episodes"
    browser.run("history.back()")
    browser.wait("document.getElementById('episodes').hidden")


@pytest.mark.parametrize("width", [320, 400, 768, 1024, 1600])
@pytest.mark.parametrize("view", ["", "#episodes", "#e=4"])
def test_nothing_is_wider_than_the_window(browser: Chromium, groups: str, width: int, view: str) -> None:
    browser.resize(width, 800)
    browser.open(groups + view)
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert (
        browser.run("document.getElementById('detail').scrollWidth - document.getElementById('detail').clientWidth")
        <= 0
    )
    browser.resize(1280, 800)


def test_a_long_passage_shows_what_surrounds_its_marks_and_opens(browser: Chromium, tmp_path: Path) -> None:
    episode = fake_runs.episode(3)
    filler, fact = "Padding \U0001f642 text. " * 200, episode["task_view"]["passages"][1]["text"]
    episode["task_view"]["passages"][1]["text"] = fact + filler
    browser.open(write_page(fake_runs.write_run(tmp_path, [episode])).as_uri() + "#e=0")
    body = ".passage:nth-of-type(2) .body"
    assert len(_text(browser, body)) < 900 and "characters" in _text(browser, body)
    assert browser.run(f"document.querySelectorAll('{body} mark.ctl').length") == 0
    browser.run("document.querySelector('.gap').click()")
    assert _text(browser, body) == fact + filler


def test_both_themes_are_drawn(browser: Chromium, page: str, tmp_path: Path) -> None:
    browser.open(page)
    shots, grounds = [], []
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        grounds.append(browser.run("getComputedStyle(document.body).backgroundColor"))
        shots.append(browser.screenshot(tmp_path / f"{scheme}.png").read_bytes())
    assert grounds == ["rgb(250, 249, 247)", "rgb(19, 21, 24)"]
    assert all(shot.startswith(b"\x89PNG") and len(shot) > 10_000 for shot in shots)
    browser.press("t")
    assert browser.run("getComputedStyle(document.body).backgroundColor") == grounds[0]


def test_a_hostile_run_is_shown_and_runs_nothing(browser: Chromium, tmp_path: Path) -> None:
    facts = {**fake_runs.manifest(2), "x": "\n".join(fake_runs.HOSTILE)}
    run = fake_runs.write_run(
        tmp_path,
        [fake_runs.hostile_episode(), {**fake_runs.hostile_episode(), "sample": 1}, fake_runs.hostile_fault()],
        facts,
    )
    address = write_page(run).as_uri()
    for view in ("", "#e=1", "#e=2"):
        browser.open(address + view)
        browser.run("new Promise((done) => setTimeout(done, 100))")
        assert browser.run("document.title").startswith("</script><img src=x onerror=")
        assert browser.run("document.querySelectorAll('img, iframe, [onerror], script:not([type])').length") == 1
    assert "onerror=\"document.title='owned'\"" in _text(browser, ".answer")
    assert _text(browser, ".answer mark.ctl") == "U+202E"
    assert browser.run("document.querySelectorAll('.passage').length") == len(fake_runs.HOSTILE)
    assert browser.run("document.body.innerText.includes('\\u202e')") is False
    assert browser.run("window.owned") is None
    assert "onerror=" in _text(browser, ".fault") and "onerror=" in _text(browser, ".noted")
    assert browser.run("document.querySelectorAll('.sample').length") == 3


def test_a_script_that_got_in_would_be_stopped(browser: Chromium, page: str) -> None:
    """The policy is the second wall: markup that is put into the page by force runs nothing."""
    browser.open(page)
    browser.run(
        "document.body.insertAdjacentHTML('beforeend', '<img src=\"x.png\" onerror=\"window.owned = 1\">');"
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.owned = 1'}))"
    )
    browser.run("new Promise((done) => setTimeout(done, 100))")
    assert browser.run("window.owned") is None
    assert any("Content Security Policy" in line for line in browser.complaints())
    browser.events.clear()


def test_thousands_of_episodes_open(browser: Chromium, tmp_path: Path) -> None:
    episodes = [fake_runs.episode(i % 60, sample=i % 8) | {"task": f"multihop/{i // 8:05d}"} for i in range(2000)]
    browser.open(write_page(fake_runs.write_run(tmp_path, episodes)).as_uri() + "#e=1999")
    assert _shown(browser) == "multihop/00249"
    assert browser.run("document.querySelectorAll('.sample').length") == 8
    assert _text(browser, "#count") == "2,000 episodes"
    assert browser.run("document.querySelectorAll('.item').length") < 40
    assert browser.run("Boolean(document.getElementById('row1999'))")


def test_without_a_script_the_overview_remains(browser: Chromium, page: str) -> None:
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(page)
        assert browser.run("getComputedStyle(document.querySelector('.noscript')).display") != "none"
        assert "Mean reward" in _text(browser, "#overview")
        assert browser.run("document.getElementById('episodes').hidden") is True
    finally:
        browser.send("Emulation.setScriptExecutionDisabled", value=False)
