"""The claims of `factgym benchmark grounding`, which people checked, in eight public data sets, and their environment.

An agent plays each claim as in `factgym check`: the prompts of ClaimCheck, the documents of the claim as the library, a
quote counts if it is word for word in a passage that was opened. Statuses that a data set does not have count as the
nearest that it has (`FOLDED`). Factcheck-GPT is checked end to end: answers are split into claims as `check` splits
them, and searched in all web passages that were retrieved for the answer.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from factgym.benchmarks.benchmark import DataSet, check_names, data_path
from factgym.check.agents import ENV
from factgym.check.answers import split_claims
from factgym.check.calibration import claim_features
from factgym.check.checker import DEFAULT_QUESTION, judge
from factgym.core.env import Env
from factgym.core.episode import RewardReport
from factgym.core.errors import ConfigError, DataError
from factgym.core.paths import is_file, is_folder
from factgym.core.registry import spec
from factgym.corpora.corpus import Passage
from factgym.datasets.base import Records, interleave
from factgym.datasets.claims import ClaimExample, GoldClaim, Status
from factgym.datasets.contractnli import ContractNliClaims
from factgym.datasets.grounding import LabelledResponse, read_claims, read_responses
from factgym.envs.claimcheck.env import ClaimCheckEnv
from factgym.envs.claimcheck.tasks import ClaimCheckConfig, ClaimTaskSet
from factgym.text.folding import find_quote
from factgym.text.sentences import passage_ranges

_BINARY: Mapping[Status, Status] = {"contradicted": "unsupported", "overclaim": "unsupported"}
FOLDED: Mapping[str, Mapping[Status, Status]] = MappingProxyType(
    {
        "wice": {"contradicted": "unsupported"},
        "fm2": {"unsupported": "contradicted", "overclaim": "contradicted"},
        "scifact": {"overclaim": "unsupported"},
        "fever-symmetric": {"unsupported": "contradicted", "overclaim": "contradicted"},
        "contracts": {"overclaim": "unsupported"},
        "factcheck-gpt": _BINARY,
        "factcheck-gpt-claims": {},
        "grayfacts": _BINARY,
        "aggrefact": _BINARY,
    }
)
"""Data set -> statuses that it does not have, and as which they count.

In WiCE a status of "unsupported" for a part of the claim counts as "overclaim", its partial support.
"""
TASKS = 300
"""Claims of each data set, unless the request says otherwise."""
_CONTRACTS = "contract_nli/dev.json"
_UNTITLED = ("Web page", "Source", "Cited page")


class ResponseClaims(Records[ClaimExample]):
    """The claims into which `factgym check` splits Factcheck-GPT's answers, with the label of their sentence.

    A claim of several sentences is true if all are. Claims of sentences without a label are left out.
    """

    def __init__(self, path: Path) -> None:
        digest = hashlib.sha256(b"factcheck-gpt")
        groups: dict[str, list[ClaimExample]] = {}
        for response in read_responses(path, digest.update):
            for example in _response_claims(response):
                groups.setdefault(example.verdict, []).append(example)
        self._records = tuple(interleave(list(groups.values())))
        self._fingerprint = digest.hexdigest()


def _response_claims(response: LabelledResponse) -> Iterator[ClaimExample]:
    """Yield the claims of a response: supported where all labelled sentences that it overlaps are."""
    labelled = [
        (span, label)
        for text, label in response.sentences
        if label is not None and (span := find_quote(text, response.text)) is not None
    ]
    for number, (start, end) in enumerate(split_claims(response.text)):
        labels = [label for (first, last), label in labelled if first < end and start < last]
        if labels:
            status: Status = "supported" if all(labels) else "unsupported"
            text = response.text[start:end]
            claim = GoldClaim(text, status, (), "" if status == "supported" else text.rstrip("."))
            id_ = f"{response.id}-{number:02d}"
            yield ClaimExample(
                id_, "test", "factcheck-gpt", response.question, text, response.passages, (claim,), status
            )


class GroundingEnv(ClaimCheckEnv):
    """ClaimCheck over one data set, scored by whether `factgym check` would give the data set's label."""

    def __init__(self, name: str, examples: Any, config: ClaimCheckConfig) -> None:
        self.name = name
        self._grounding_tasks = ClaimTaskSet(examples, config)
        super().__init__(spec(ENV), config)

    def load_tasks(self) -> ClaimTaskSet:
        """Return the claims of the data set."""
        return self._grounding_tasks

    def score(self) -> RewardReport:
        """Return 1 for the data set's label, and the facts of which the benchmark's scores are made."""
        example, library = self.task.example, self.task.library
        opened = [id_ for id_, turn in self.state.read.items() if turn < len(self.episode.turns) - 1]
        entries = (self.state.submission or {}).get("claims", ())
        judgement = judge(example.answer, entries, opened, library)
        quotes = [library.corpus.get(id_).text[start:end] for id_, start, end in judgement.quotes]
        features = claim_features(example.answer, quotes, judgement.not_carried)
        status = None if judgement.agent_status is None else folded(self.name, judgement.status, features["part"] > 0)
        units = Units(example.passages, by_line=self.name != "contracts")
        sets = [facts for facts in (example.claims[0].facts, *example.alternatives) if facts]
        metrics = {
            "data_set": self.name,
            "gold_verdict": example.verdict,
            "verdict": status,
            "status": judgement.status,
            "features": features,
            "selected": units.covered(judgement.quotes),
            "sets": [units.covered([(fact.passage, fact.start, fact.end) for fact in facts]) for facts in sets],
            "group": _group(self.name, example),
            "subset": example.domain,
        }
        return RewardReport(float(status == example.verdict), metrics=metrics)


def folded(name: str, status: Status, is_part: bool) -> Status:
    """Return the status as which `status` counts in a data set. is_part: quotes carry the other part of the claim."""
    if name == "wice" and status == "unsupported" and is_part:
        return "overclaim"
    return FOLDED[name].get(status, status)


def _group(name: str, example: ClaimExample) -> str:
    """Return the document of an example, whose claims depend on each other."""
    if name == "factcheck-gpt":
        return example.id.rpartition("-")[0]
    title = example.passages[0].title.partition(" › ")[0]
    return example.answer[:200] if title in _UNTITLED else title[:200]


class Units:
    """The sentences of passages: the annotators', one a line, or those of the package's rules.

    A sentence is named by its document (the id up to ".") and its number in it.
    """

    def __init__(self, passages: Sequence[Passage], *, by_line: bool) -> None:
        numbers: Counter[str] = Counter()
        self._ranges: dict[str, list[tuple[int, int, str, int]]] = {}
        for passage in passages:
            document = passage.id.partition(".")[0] if "." in passage.id else ""
            ranges = _lines(passage.text) if by_line else passage_ranges(passage.text)
            self._ranges[passage.id] = []
            for start, end in ranges:
                self._ranges[passage.id].append((start, end, document, numbers[document]))
                numbers[document] += 1

    def covered(self, spans: Sequence[tuple[str, int, int]]) -> list[list[Any]]:
        """Return `[document, number]` of each sentence of which spans of characters cover half, in order."""
        covered: dict[tuple[str, int], None] = {}
        for id_, first, last in spans:
            for start, end, document, number in self._ranges.get(id_, ()):
                if 2 * (min(end, last) - max(start, first)) >= end - start:
                    covered[document, number] = None
        return [list(unit) for unit in covered]


def _lines(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for line in text.split("\n"):
        yield start, start + len(line)
        start += len(line) + 1


@dataclass(frozen=True, slots=True)
class GroundingSet(DataSet):
    """A data set of `FOLDED`, and how its claims are read."""

    examples: Callable[[Path], Any] = field(default=lambda path: ())

    def open(self, settings: Mapping[str, Any] = MappingProxyType({})) -> Env[Any]:
        """Return the environment over it. Raises ConfigError and DataError as `make` does."""
        assert self.path is not None
        values = {"max_turns": 16, **settings, "source": "docs"}
        return GroundingEnv(
            self.name, _WithQuestions(self.examples(self.path)), ClaimCheckConfig.build("grounding", values)
        )


class _WithQuestions:
    """Examples with the question that `factgym check` asks where there is none."""

    def __init__(self, examples: Any) -> None:
        self._examples = examples
        self.fingerprint = examples.fingerprint

    def __len__(self) -> int:
        return len(self._examples)

    def __getitem__(self, index: int) -> ClaimExample:
        example: ClaimExample = self._examples[index]
        return example if example.question.strip() else replace(example, question=DEFAULT_QUESTION)


def _reader(name: str) -> Callable[[Path], Any]:
    if name == "factcheck-gpt":
        return ResponseClaims
    if name == "contracts":
        return lambda path: ContractNliClaims(path / _CONTRACTS if is_folder(path) else path)
    return lambda path: read_claims(name, path)


def data_sets(
    data: Path | None = None, only: Sequence[str] = (), settings: Mapping[str, Any] = MappingProxyType({})
) -> tuple[DataSet, ...]:
    """Return the data sets in a folder, or those of `only`; of one file LLM-AggreFact's layout, or that of `only`.

    Raises ConfigError without data, for unknown names, and for requested data sets that are missing.
    """
    check_names(only, tuple(FOLDED))
    path = data_path(data)
    if path is None:
        raise ConfigError("the grounding benchmark needs data: give a folder or file with --data, or set FACTGYM_DATA")
    names = tuple(only) or (tuple(FOLDED) if is_folder(path) else ("aggrefact",))
    if is_file(path) and len(names) > 1:
        raise ConfigError(f"{path} is one file: name one data set with --only, or give a folder")
    chosen, missing = [], []
    for name in names:
        entry = GroundingSet(name, ENV, {}, path, TASKS, _reader(name))
        try:
            entry.examples(path)
        except DataError as error:
            missing.append(str(error))
        else:
            chosen.append(entry)
    if not chosen or (only and missing):
        raise ConfigError(" ".join(missing)[:2000])
    return tuple(chosen)
