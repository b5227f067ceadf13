"""Episodes as training rows with advantages, as metrics, and as rows of the solver's data set.

A training row is one line of `train.jsonl`, for each scored episode; `docs/guides/evolve.md` explains its keys. Only the
messages named in `actions` are the policy's: the others are masked in training. Phase A compares within a hop count
(HRPO, equation 5), Phase B within the episodes of one row (GRPO)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from factgym.agents.runs import files
from factgym.agents.runs.files import DOCUMENTS, TRIPLES
from factgym.benchmarks.answers import group_by
from factgym.corpora.corpus import Corpus
from factgym.datasets.multihop import Evidence, Triple, triple_row
from factgym.rewards.advantages import group_advantages, hop_advantages

Row = dict[str, Any]
Episodes = Sequence[Mapping[str, Any]]
PhaseName = Literal["proposer", "solver"]

SCHEMA = 1


def scored(episodes: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The episodes that have a reward, sorted by task and sample."""
    rewarded = [
        episode for episode in episodes if episode["reward"] is not None and episode["reward"]["total"] is not None
    ]
    return sorted(rewarded, key=lambda episode: (episode["index"], episode["sample"]))


def training_rows(episodes: Episodes, phase: PhaseName, iteration: int) -> list[Row]:
    """A row for each scored episode, in the order given, with its advantage within its group."""
    rows = []
    for episode, advantage in zip(episodes, advantages_of(episodes, phase), strict=True):
        reward, hops = episode["reward"], hops_of(episode)
        completions = [turn["completion"] for turn in episode["turns"]]
        row = {
            "schema": SCHEMA,
            "phase": phase,
            "iteration": iteration,
            **{name: episode[name] for name in ("task", "sample", "seed", "messages", "tools")},
            "actions": [turn["message"] for turn in episode["turns"]],
            "hops": hops,
            "group": f"hops-{hops}" if phase == "proposer" else episode["task"],
            "reward": reward["total"],
            "components": reward["components"],
            "advantage": advantage,
            "spans": reward["spans"],
            "completions": completions if any(completion is not None for completion in completions) else None,
        }
        rows.append(row)
    return rows


def advantages_of(episodes: Episodes, phase: PhaseName) -> list[float]:
    """The advantage of each episode: among those of its hop count (HRPO), or of its task, which are adjacent (GRPO)."""
    if not episodes:
        return []
    if phase == "proposer":
        rewards = [episode["reward"]["total"] for episode in episodes]
        return [float(value) for value in hop_advantages(rewards, [hops_of(episode) or 0 for episode in episodes])]
    return [float(value) for rewards in rewards_by_task(episodes) for value in group_advantages(rewards)]


def rewards_by_task(episodes: Episodes) -> list[list[float]]:
    """The rewards of each task's episodes."""
    groups = group_by(episodes, lambda episode: episode["task"])
    return [[episode["reward"]["total"] for episode in group] for group in groups.values()]


def hops_of(episode: Mapping[str, Any]) -> int | None:
    """The hop count in an episode's reward report."""
    hops = episode["reward"]["metrics"].get("hops")
    return hops if isinstance(hops, int) else None


def mean(values: Iterable[float | int | bool | None]) -> float | None:
    """The mean of the values that are not None, to six places; None without any."""
    numbers = [float(value) for value in values if value is not None]
    # Adding 0.0 turns -0.0 into 0.0.
    return round(fmean(numbers), 6) + 0.0 if numbers else None


def reward_means(episodes: Episodes) -> dict[str, Any]:
    """Means of the reward and of its components."""
    rewards = [episode["reward"] for episode in episodes]
    names = dict.fromkeys(name for reward in rewards for name in reward["components"])
    return {
        "reward": mean(reward["total"] for reward in rewards),
        "components": {name: mean(reward["components"].get(name) for reward in rewards) for name in names},
    }


def proposer_metrics(episodes: Episodes) -> dict[str, Any]:
    """Metrics of scored proposer episodes.

    valid: share. V, plus, minus, solved (k / n): means over the valid ones. placed: share of all whose evidence is
    verbatim in the document or a search result. hops: count -> episodes and mean reward. flat: share whose HRPO
    advantage is 0.
    """
    metrics = [episode["reward"]["metrics"] for episode in episodes]
    valid = [values for values in metrics if values.get("valid")]
    by_hops = group_by(episodes, hops_of)
    solved = [values["k"] / values["n"] for values in valid if values.get("n") and values.get("k") is not None]
    return {
        **reward_means(episodes),
        "valid": mean(bool(values.get("valid")) for values in metrics),
        "placed": mean(values.get("evidence_span") is not None for values in metrics),
        **{name: mean(values.get(name) for values in valid) for name in ("V", "plus", "minus")},
        "solved": mean(solved),
        "documents": len({values.get("document") for values in metrics}),
        "hops": {
            str(hops): {"episodes": len(group), "reward": mean(episode["reward"]["total"] for episode in group)}
            for hops, group in sorted(by_hops.items(), key=lambda item: item[0] or 0)
        },
        "flat": mean(value == 0 for value in advantages_of(episodes, "proposer")),
    }


def solver_metrics(episodes: Episodes) -> dict[str, Any]:
    """Metrics of scored solver episodes.

    em, f1, evidence_f1, searches: means. verbatim: share whose evidence is verbatim in a retrieved passage. flat: share
    of the groups whose rewards are all equal, so that nothing is learned from them.
    """
    names = {name: name for name in ("em", "f1", "evidence_f1")}
    names |= {"present": "evidence_present", "verbatim": "evidence_verbatim", "searches": "searches"}
    metrics = [episode["reward"]["metrics"] for episode in episodes]
    groups = rewards_by_task(episodes)
    return {
        **reward_means(episodes),
        **{name: mean(values.get(key) for values in metrics) for name, key in names.items()},
        "groups": len(groups),
        "flat": mean(max(rewards) == min(rewards) for rewards in groups),
    }


_META = ("V", "plus", "minus", "k", "n", "brevity", "value_kind", "solver", "auxiliary")


def write_triples(
    folder: Path,
    episodes: Iterable[Mapping[str, Any]],
    corpus: Corpus,
    min_value: float | None,
    select: Literal["valid", "all"] = "valid",
) -> dict[str, Any]:
    """Write the data set of proposer episodes, which are read as a stream, and return its metrics.

    A row needs a valid proposal, as in the paper, and evidence with a span in the document or a search result: without
    a span nothing can be checked. Dropped are also questions that contain every word of their answer, in another order
    or hidden, and a second row with the same question, answer and evidence. select: "all" drops repeated rows alone, and
    those without a question or an answer.
    """
    triples: list[Triple] = []
    dropped: list[Row] = []
    keys: set[tuple[str, ...]] = set()
    names = ("index", "sample", "task", "reward")
    for episode in scored({name: episode[name] for name in names} for episode in episodes):
        metrics = episode["reward"]["metrics"]
        row_id = f"{episode['task']}#{episode['sample']}"
        texts = [str(metrics.get(name) or "") for name in ("question", "answer", "evidence")]
        key = tuple(" ".join(text.casefold().split()) for text in texts)
        value = metrics.get("V")
        # The reasons in `dropped.jsonl` and `metrics.json`.
        faults = (
            {"without a question or an answer": not texts[0] or not texts[1]}
            if select == "all"
            else {
                "invalid: a part is empty, or the question holds its answer": not metrics.get("valid"),
                "the question holds every word of its answer": metrics.get("leak"),
                "the evidence is in no document or search result": metrics.get("evidence_span") is None,
                "V is below the least that is kept": min_value is not None and (value is None or value < min_value),
            }
        )
        faults["a row before it is the same"] = key in keys
        # A row is counted under the first of its faults.
        reason = next((reason for reason, applies in faults.items() if applies), None)
        if reason is not None:
            proposal = {name: metrics.get(name) for name in ("document", "question", "answer", "evidence", "V")}
            dropped.append({"id": row_id, "reason": reason, **proposal})
            continue
        keys.add(key)
        evidence: tuple[Evidence, ...] = ()
        if span := metrics.get("evidence_span"):
            document, start, end = span["document"], span["start"], span["end"]
            evidence = (Evidence(document, start, end, corpus.get(document).text[start:end]),)
        meta = {
            "source": metrics["document"],
            "task": episode["task"],
            "sample": episode["sample"],
            "reward": episode["reward"]["total"],
            **{name: metrics.get(name) for name in _META},
        }
        triple = Triple(
            id=row_id,
            question=metrics["question"],
            answers=(metrics["answer"],),
            evidence=evidence,
            hops=metrics.get("hops_made"),
            benchmark="eve",
            meta=meta,
        )
        triples.append(triple)
    ids = (
        document
        for triple in triples
        for document in (triple.meta["source"], *(span.document for span in triple.evidence))
    )
    passages = [corpus.get(document) for document in dict.fromkeys(ids)]
    files.write_lines(folder / files.DROPPED, dropped)
    files.write_lines(folder / DOCUMENTS, map(asdict, passages))
    files.write_lines(folder / TRIPLES, map(triple_row, triples))
    return {
        "episodes": len(triples) + len(dropped),
        "rows": len(triples),
        "dropped": dict(Counter(row["reason"] for row in dropped)),
        "documents": len({triple.meta["source"] for triple in triples}),
        "V": mean(triple.meta["V"] for triple in triples),
        "hops": {str(hops): n for hops, n in sorted(Counter(triple.hops or 0 for triple in triples).items())},
    }
