"""ProFact's evaluation of a run or of a file of predictions, with the scores of AVeriTeC's official scorer.

METEOR of the best one-to-one assignment over the number of gold items, the share of right labels, F1 by label, and the
AVeriTeC score: the share of claims whose label is right and whose question-answer score lies above (not at) a cutoff. A
claim without a prediction scores 0 everywhere. Nothing in a record is trusted; only an unreadable gold label is an error.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from factgym.benchmarks.answers import (
    Answers,
    Episode,
    RecordedAnswer,
    RunLike,
    bootstrap_mean,
    clusters_of,
    manifest_text,
    open_run,
    read_run_answers,
)
from factgym.benchmarks.costs import UsageSummary, UsageTally, model_of
from factgym.benchmarks.formats import count
from factgym.benchmarks.records import gold_of, items, members, number, numbers, parts_of, text_of, verdict_of
from factgym.benchmarks.statistics.bootstrap import bca, bca_score, sample_of
from factgym.benchmarks.statistics.classification import (
    Confusion,
    LabelScores,
    accuracy,
    confusion,
    label_scores,
    ratio,
)
from factgym.benchmarks.statistics.intervals import Estimate
from factgym.core.errors import DataError
from factgym.core.strict_json import clean_text
from factgym.corpora.rows import Row, read_rows
from factgym.datasets.averitec import LABELS, NO_ANSWER, FactCheck, Label, evidence_strings
from factgym.rewards.profact.meteor import MAX_PREDICTIONS, match_texts
from factgym.rewards.profact.stages import CUTOFFS, averitec_correct, comparison_strings
from factgym.text.treebank import Tokenize, word_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimAnswer(RecordedAnswer):
    """One answered claim.

    question, qa: the two METEOR scores in [0, 1], None where they are unknown. label: the predicted one, None for none.
    questions, answered: questions posed, and those with an answer. searches, seconds: None where they are unknown.
    store: kinds of evidence with their notes. split: empty where the record has none.
    """

    gold: Label
    label: Label | None = None
    question: float | None
    qa: float | None
    questions: int = 0
    answered: int = 0
    searches: int | None = None
    seconds: float | None = None
    store: Mapping[str, str] = dataclasses.field(default_factory=dict)
    split: str = ""

    @property
    def right(self) -> bool:
        """Whether the label is the gold one."""
        return self.label == self.gold


def meteor_scores(
    check: FactCheck, questions: Sequence[str], pairs: Sequence[str], limit: int, tokenize: Tokenize
) -> tuple[float, float]:
    """Return the scores of questions, and of questions with their answers, against the gold ones."""
    return (
        match_texts(questions, [item.question for item in check.questions], tokenize=tokenize, limit=limit).score,
        match_texts(pairs, evidence_strings(check), tokenize=tokenize, limit=limit).score,
    )


def read_answer(episode: Episode, source: str, golds: Mapping[int, FactCheck] | None = None) -> ClaimAnswer:
    """Return the answer of a scored episode of `profact*`.

    golds: gold records by claim id; with them questions and answers are scored anew. Raises DataError, which names the
    task, for a run of another environment, and for a claim that `golds` lacks.
    """
    reward, metrics, _ = parts_of(episode)
    gold = next((label for label in LABELS if label == gold_of(episode)), None)
    task = f"{source}: task {episode['task']!r:.80}"
    if gold is None:
        raise DataError(
            f"{task} has no gold label that is one of {', '.join(LABELS)}; is this a run of a profact environment?"
        )
    questions = [text for text in items(metrics.get("questions")) if isinstance(text, str)]
    pairs = [(str(pair[0]), str(pair[1])) for pair in items(metrics.get("pairs")) if len(items(pair)) == 2]
    components = numbers(reward.get("components"))
    question, qa = components.get("question"), components.get("qa")
    if golds is not None:
        claim_id = metrics.get("claim_id")
        check = golds.get(claim_id) if isinstance(claim_id, int) else None
        if check is None:
            raise DataError(
                f"{task} is claim {str(claim_id)[:20]}, which the gold file does not have. "
                "Give the gold file of the same split with --data, or leave it out."
            )
        texts = [f"{text} {answer}" for text, answer in pairs]
        question, qa = meteor_scores(check, questions, texts, MAX_PREDICTIONS, word_tokens)
    searches = [n for value in items(metrics.get("searches")) if (n := number(value)) is not None]
    store = metrics.get("store")
    kind = store if isinstance(store, str) else members(store).get("kind")
    return ClaimAnswer(
        task=str(episode["task"]),
        gold=gold,
        label=next((label for label in LABELS if label == verdict_of(episode)), None),
        question=question,
        qa=qa,
        questions=len(questions),
        answered=sum(is_answer(answer) for _, answer in pairs),
        searches=round(sum(searches)) if "searches" in metrics else None,
        seconds=number(episode.get("seconds")),
        store={kind: text_of(members(store).get("note"))} if isinstance(kind, str) else {},
        split=text_of(episode.get("split")),
    )


def score_predictions(
    by_id: Mapping[int, Prediction], checks: Sequence[FactCheck], source: str, limit: int, tokenize: Tokenize
) -> Answers[ClaimAnswer]:
    """Return an answer for each of `checks`; a claim without a prediction scores 0 and has no label.

    limit: how many questions, and how many pieces of evidence, of a claim count. Raises DataError for predictions of
    claims that are not in `checks`, and for a claim without a gold question, which the official score divides by.
    """
    advice = "Give the gold file of the same split with --data."
    golds = {check.claim_id: check for check in checks}
    unknown = [claim_id for claim_id in by_id if claim_id not in golds]
    if unknown:
        raise DataError(
            f"{source}: {count(len(unknown), 'prediction')} of claims that the gold file does not have "
            f"(claim_id {unknown[0]} first). {advice}"
        )
    for claim_id, prediction in by_id.items():
        claim = golds[claim_id].claim
        if prediction.claim and prediction.claim.split() != claim.split():
            raise DataError(
                f"{source}: claim {claim_id} reads {prediction.claim[:60]!r}, in the gold file {claim[:60]!r}. {advice}"
            )
    rows = []
    for check in checks:
        answer = ClaimAnswer(task=check.id, gold=check.label, question=0.0, qa=0.0)
        if (submitted := by_id.get(check.claim_id)) is not None:
            question, qa = meteor_scores(check, submitted.questions, submitted.pairs, limit, tokenize)
            answer = dataclasses.replace(
                answer,
                label=submitted.label,
                question=question,
                qa=qa,
                questions=len(submitted.questions),
                answered=submitted.answered,
            )
        rows.append(answer)
    return Answers(tuple(rows))


@dataclass(frozen=True, slots=True)
class ProFactReport:
    """The evaluation of one run, or of one file of predictions; scores and shares in [0, 1].

    agent, split: empty where they are unknown. source: the folder or file. n: scored episodes or claims, of `tasks`
    claims; errors and unscored episodes are left out, `missing` claims (without a prediction) count as 0. question,
    qa: METEOR of the questions, and of the questions with their answers. averitec: by cutoff. labels, confusion: over
    the four labels; f1: by label. no_label: share without a label. questions, searches: for a claim. unanswered: share of
    the questions without an answer. seconds: of an episode on the clock, others at the same time included. usage:
    None where the records have none. stores: kind of evidence -> note; empty for predictions.
    """

    env: str
    agent: str
    split: str
    source: str
    n: int
    tasks: int
    errors: int
    unscored: int
    missing: int
    notes: tuple[str, ...]
    stores: Mapping[str, str]
    question: Estimate
    qa: Estimate
    accuracy: Estimate
    averitec: Mapping[float, Estimate]
    macro_f1: Estimate
    f1: Mapping[str, Estimate]
    labels: Mapping[str, LabelScores]
    confusion: Confusion
    no_label: Estimate
    questions: Estimate
    unanswered: Estimate
    searches: Estimate
    seconds: Estimate
    usage: UsageSummary | None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data, keys in the order above; cutoffs as text. The field `questions` is written as "asked"."""
        values = dataclasses.asdict(self)
        values["averitec"] = {str(cutoff): estimate for cutoff, estimate in values["averitec"].items()}
        return {"asked" if name == "questions" else name: value for name, value in values.items()}


def evaluate_run(run: RunLike, *, checks: Sequence[FactCheck] | None = None) -> ProFactReport:
    """Evaluate a recorded run of `profact` or `profact-noprocess`.

    checks: the gold records; with them questions and answers are scored anew instead of taken from the records. Raises
    DataError for a folder that holds no run, for a run of another environment, and for a run without a scored episode.
    """
    run = open_run(run)
    golds = None if checks is None else {check.claim_id: check for check in checks}
    answers = read_run_answers(run, lambda episode: read_answer(episode, str(run.folder), golds))
    usage, tasks = UsageTally(model=model_of(run.manifest)), dict[str, int]()
    for episode in run.episodes():
        usage.add(tasks.setdefault(str(episode.get("task")), len(tasks)), episode)
    return _report(
        answers,
        env=manifest_text(run, "env"),
        agent=manifest_text(run, "agent"),
        split=" + ".join(dict.fromkeys(row.split for row in answers.rows if row.split)),
        source=str(run.folder),
        notes=run.notes,
        usage=usage.summary(),
    )


def evaluate_predictions(
    path: str | Path,
    checks: Sequence[FactCheck],
    *,
    split: str = "",
    limit: int = MAX_PREDICTIONS,
    tokenize: Tokenize = word_tokens,
) -> ProFactReport:
    """Evaluate a file of predictions for all of `checks`, in AVeriTeC's submission layout.

    limit: how many questions of a claim count; ten for the official
    scorer, five in the paper. tokenize: `nltk_tokens()` cuts words as the official scorer does; the default needs
    nothing installed. Raises DataError for an unusable file and for predictions of other claims.
    """
    by_id = {prediction.claim_id: prediction for prediction in read_predictions(path)}
    answers = score_predictions(by_id, checks, str(path), limit, tokenize)
    if not answers.rows:
        raise DataError(f"{path}: there are no claims to score it against")
    notes = []
    if limit != MAX_PREDICTIONS:
        notes.append(f"Only the first {count(limit, 'question')} of a claim count.")
    missing = len(checks) - len(by_id)
    if missing:
        notes.append(
            f"{count(missing, 'claim')} without a prediction: they count as 0. The official scorer pairs by place "
            "and cannot score such a file."
        )
    invalid = sum(prediction.label is None and bool(prediction.label_text) for prediction in by_id.values())
    if invalid:
        notes.append(f"{count(invalid, 'prediction')} with a label that is none of the four: they are wrong.")
    return _report(answers, agent=Path(path).stem, split=split, source=str(path), notes=notes, missing=missing)


def _report(
    answers: Answers[ClaimAnswer],
    *,
    env: str = "",
    agent: str,
    split: str,
    source: str,
    notes: Iterable[str],
    missing: int = 0,
    usage: UsageSummary | None = None,
) -> ProFactReport:
    rows, clusters = answers.rows, clusters_of(answers.rows)
    golds, labels = [row.gold for row in rows], [row.label for row in rows]
    table, pairs = confusion(golds, labels, LABELS), list(zip(golds, labels, strict=True))
    posed = [row for row in rows if row.questions]  # A claim without a question has no weight.
    stores = {kind: note for row in rows for kind, note in row.store.items()}
    notes = list(notes)
    if clusters is not None:
        notes.append("Claims were sampled several times: bootstrap intervals are over claims.")
    if any(row.qa is None or row.question is None for row in rows):
        notes.append("Some episodes have no METEOR scores in their record: give the gold file with --data.")

    def mean(value: Callable[[ClaimAnswer], float | bool | None]) -> Estimate:
        return bootstrap_mean(rows, value, clustered=clusters is not None)

    def counts_at(cutoff: float) -> Callable[[ClaimAnswer], bool | None]:
        return lambda row: None if row.qa is None else averitec_correct(row.right, row.qa, cutoff)

    return ProFactReport(
        env=env,
        agent=agent,
        split=split,
        source=source,
        n=len(rows),
        tasks=answers.tasks,
        errors=answers.errors,
        unscored=answers.unscored,
        missing=missing,
        notes=(*notes, *(note for note in stores.values() if note)),
        stores=stores,
        question=mean(lambda row: row.question),
        qa=mean(lambda row: row.qa),
        accuracy=accuracy(table) if clusters is None else mean(lambda row: float(row.right)),
        averitec={cutoff: mean(counts_at(cutoff)) for cutoff in CUTOFFS},
        macro_f1=bca_score(golds, labels, "macro_f1", labels=LABELS, clusters=clusters),
        f1={
            # 2 TP over gold and predicted items of the label: a function of sums.
            label: _share([(2 * (a == label == b), (a == label) + (b == label)) for a, b in pairs], clusters)
            for label in LABELS
        },
        labels=dict(label_scores(table)),
        confusion=table,
        no_label=mean(lambda row: row.label is None),
        questions=mean(lambda row: float(row.questions)),
        unanswered=_share(
            [(max(0, row.questions - row.answered), row.questions) for row in posed],
            None if clusters is None else [row.task for row in posed],
        ),
        searches=mean(lambda row: None if row.searches is None else float(row.searches)),
        seconds=mean(lambda row: row.seconds),
        usage=usage,
    )


def _share(sums: Sequence[tuple[int, int]], clusters: Sequence[str] | None) -> Estimate:
    """Return the ratio of two sums over claims, 0 where there is nothing to divide by, with its BCa interval."""
    rows = np.array(sums, np.float64).reshape(-1, 2)
    return bca(sample_of(rows, clusters), lambda totals: ratio(totals[..., 0], totals[..., 1]))


# Files of predictions in AVeriTeC's submission layout, read for scoring.
#
#     [{"claim_id": 0, "claim": …, "evidence": [{"question": …, "answer": …, "url": …}, …], "pred_label": "Refuted"}, …]
#
# Also read: JSON lines; `label` for `pred_label`; the older layout with `questions` and `answers`; `string_evidence`. The
# official scorer pairs by position in the file; here the `claim_id` counts, the position only where no prediction has one.

_EXPECTED = 'Expected are objects with claim_id, evidence (a list of {"question", "answer"}) and pred_label.'
_MAX_TEXT_CHARS = 100_000
_MAX_ITEMS = 1_000


@dataclass(frozen=True, slots=True)
class Prediction:
    """The prediction for one claim.

    claim: its text where the file has it, else empty. questions: as asked. pairs: "question answer", as the official
    scorer compares them, then the evidence without a question. answered: how many of the pairs have an answer. label:
    one of the four letter by letter, else None; label_text: as in the file.
    """

    claim_id: int
    claim: str
    questions: tuple[str, ...]
    pairs: tuple[str, ...]
    answered: int
    label: Label | None
    label_text: str


def read_predictions(path: str | Path) -> tuple[Prediction, ...]:
    """Return the predictions of a file, in its order.

    Raises DataError, which names file and entry, for a row that is no prediction, and for a claim that is predicted twice.
    """
    file = Path(path)
    entries: dict[int, int] = {}
    predictions: list[Prediction] = []
    numbered: bool | None = None
    for index, row in enumerate(read_rows(file, suffixes=None)):
        has_id = "claim_id" in row.values
        if numbered is not None and numbered != has_id:
            raise _unusable(row, "some predictions have a claim_id and some have none")
        numbered = has_id
        prediction = _prediction(row, index)
        claim_id, entry = prediction.claim_id, len(predictions) + 1
        if claim_id in entries:
            raise DataError(
                f"{file} entry {entry}: claim {claim_id} is predicted twice (entry {entries[claim_id]} too). "
                "Remove one of them."
            )
        entries[claim_id] = entry
        predictions.append(prediction)
    if not predictions:
        raise DataError(f"{file}: holds no prediction. {_EXPECTED}")
    return tuple(predictions)


def is_answer(text: str) -> bool:
    """Return whether a text answers anything: it is not blank, and not the words for "no answer"."""
    return bool(text.strip()) and text.strip().rstrip(".").casefold() != NO_ANSWER.rstrip(".").casefold()


def _unusable(row: Row, problem: str) -> DataError:
    return DataError(f"{row.location}: {problem}. {_EXPECTED}")


def _prediction(row: Row, index: int) -> Prediction:
    """Read a prediction in the layout of AVeriTeC's scorer, or in that of its baseline (`string_evidence`, `pred_label`)."""
    values = row.values
    label = values.get("pred_label", values.get("label"))
    if label is not None and not isinstance(label, str):
        raise _unusable(row, f"the label is {str(label)[:40]!r}, which is no text")
    questions, pairs, answered = _evidence(row)
    loose = tuple(_text(row, text, "a string of evidence") for text in _items(row, "string_evidence"))
    if "evidence" not in values and "questions" not in values:
        questions = loose
    claim, claim_id = values.get("claim"), values.get("claim_id", index)
    if isinstance(claim_id, str) and claim_id.isascii() and claim_id.isdigit() and len(claim_id) < 10:
        claim_id = int(claim_id)
    if isinstance(claim_id, bool) or not isinstance(claim_id, int) or not 0 <= claim_id < 10**9:
        raise _unusable(row, f"the claim_id is {str(claim_id)[:40]!r}, and must be a whole number from 0")
    return Prediction(
        claim_id=claim_id,
        claim=claim if isinstance(claim, str) else "",
        questions=questions,
        pairs=(*pairs, *loose),
        answered=answered + len(loose),
        label=next((name for name in LABELS if name == label), None),
        label_text=label or "",
    )


def _evidence(row: Row) -> tuple[tuple[str, ...], tuple[str, ...], int]:
    """Return questions, pairs, and how many pairs have an answer."""
    questions, pairs, answered = [], [], 0
    if "evidence" not in row.values and "questions" in row.values:
        entries = _items(row, "questions")
        try:
            questions = [_text(row, item["question"], "a question") for item in entries]
            pairs = [_text(row, text, "an answer") for text in comparison_strings(entries)]
            answers = [item["answers"] for item in entries if item["answers"]]
            answered = sum(len(texts) if isinstance(texts, list) else 1 for texts in answers)
        except (KeyError, TypeError, AttributeError) as error:
            raise _unusable(row, f"'questions' is not as in AVeriTeC's files ({error!r:.60})") from None
    for item in _items(row, "evidence"):
        if not isinstance(item, Mapping):
            raise _unusable(row, f"a piece of evidence is {str(item)[:40]!r}, which is no object")
        question, answer = _text(row, item.get("question"), "a question"), _text(row, item.get("answer"), "an answer")
        questions.append(question)
        pairs.append(f"{question} {answer}")
        answered += is_answer(answer)
    return tuple(questions), tuple(pairs), answered


def _items(row: Row, key: str) -> list[Any]:
    value = row.values.get(key, [])
    if not isinstance(value, list) or len(value) > _MAX_ITEMS:
        raise _unusable(row, f"{key!r} must be a list of at most {_MAX_ITEMS:,}")
    return value


def _text(row: Row, value: object, name: str) -> str:
    if not isinstance(value, str) or len(value) > _MAX_TEXT_CHARS:
        raise _unusable(row, f"{name} must be a text of at most {_MAX_TEXT_CHARS:,} characters")
    return clean_text(value)
