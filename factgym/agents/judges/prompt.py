"""The fixed prompt of a judge: its fields, its grades, and the cases, written as untrusted data.

EVE (appendix on the evaluation protocol): a judge sees question, gold answer and emitted span, and decides whether
the question with the span is sufficient to recover the answer. SEVA (appendix on adversarial data): a probe is kept
when its perturbation is detectable, it reads fluently and it has the intended error. The words here are our own.

The texts may have been written to obtain a good judgement. Each is put between tags that it cannot close, and
holds nothing that a parser of answers would read, so that a judge that only repeats it has not answered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

from factgym.agents.judges.base import Case
from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.messages import Message
from factgym.core.prompts import fill, prompt, prompt_hash
from factgym.core.strict_json import clean_text
from factgym.core.untrusted import delimited, nonce_of
from factgym.tools.toolbox import Tool

SUBMIT = "submit_judgement"

AnswerForm = Literal["tool", "json"]
"""How a judge answers: by a call of `submit_judgement`, or with a JSON object as text."""

_PACKAGE = "factgym.agents.judges"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")


@dataclass(frozen=True, slots=True)
class Field:
    """One text of a case. name: of its tags, too. max_chars: a judge sees; the middle of a longer text is cut."""

    name: str
    max_chars: int
    required: bool = True


@dataclass(frozen=True)
class JudgePrompt:
    """A rubric: the question, the fields it is about, and the score of each answer.

    text: the instructions. grades: label -> score in [0, 1], the best first; two labels with 1 and 0 make a binary
    scale. version: raised with every change of meaning. Raises ConfigError for an invalid rubric.
    """

    name: str
    version: int
    text: str
    fields: tuple[Field, ...]
    grades: Mapping[str, float]

    def __post_init__(self) -> None:
        if len(set(self.grades.values())) < 2 or not all(0 <= score <= 1 for score in self.grades.values()):
            raise ConfigError(f"rubric {self.name!r}: grades are labels with at least two scores in [0, 1]")
        names = [field.name for field in self.fields]
        if not names or len(set(names)) < len(names) or not all(_NAME.fullmatch(name) for name in names):
            raise ConfigError(f"rubric {self.name!r}: fields have different names of lower-case letters, digits and _")
        object.__setattr__(self, "grades", MappingProxyType(dict(self.grades)))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.version, self.text, self.fields, dict(self.grades))

    @property
    def scale(self) -> Literal["binary", "graded"]:
        """Whether the answer is yes or no, or one of several grades."""
        return "binary" if sorted(self.grades.values()) == [0, 1] else "graded"

    def describe(self) -> dict[str, Any]:
        """Name, version, scale and grades, as JSON data."""
        return {"rubric": self.name, "version": self.version, "scale": self.scale, "grades": dict(self.grades)}

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of a judgement."""
        return {
            "type": "object",
            "properties": {
                "reason": {"type": "string", "minLength": 1, "description": "What decides it, in a sentence or two."},
                "label": {"type": "string", "enum": list(self.grades), "description": "The judgement."},
            },
            "required": ["reason", "label"],
            "additionalProperties": False,
        }

    @cached_property
    def tool(self) -> Tool:
        """The tool that takes a judgement."""
        return Tool(
            SUBMIT, "Submit the judgement on the case.", self.schema, lambda state, **arguments: arguments, json.dumps
        )

    def how(self, form: AnswerForm) -> str:
        """The instruction how to answer."""
        labels = ", ".join(json.dumps(label) for label in self.grades)
        example = json.dumps({"reason": "…", "label": "…"}, ensure_ascii=False)
        return fill(prompt(_PACKAGE, f"by-{form}"), labels=labels, example=example)

    def fingerprint(self, form: AnswerForm) -> str:
        """SHA-256, in hex, of the prompt and the schema, without the case."""
        fields = [[field.name, field.max_chars, field.required] for field in self.fields]
        parts = [self.name, self.version, self.text, prompt(_PACKAGE, "case"), prompt(_PACKAGE, "again")]
        return prompt_hash(json.dumps([*parts, self.how(form), fields, dict(self.grades), self.schema]))

    def check(self, case: Case) -> dict[str, str]:
        """The case's texts in the order of the fields. Raises ConfigError that names what is missing or unknown."""
        names = [field.name for field in self.fields]
        for name in case:
            if name not in names:
                hint = did_you_mean(str(name), names)
                raise ConfigError(f"a case of {self.name!r} has no field {name!r}.{hint} It has: {', '.join(names)}.")
        texts = {}
        for field in self.fields:
            text = case.get(field.name, None if field.required else "")
            if not isinstance(text, str):
                problem = "is missing" if text is None else f"must be a text, not {type(text).__name__}"
                raise ConfigError(f"a case of {self.name!r}: {field.name} {problem}")
            texts[field.name] = text
        return texts

    def messages(self, case: Case, form: AnswerForm) -> list[Message]:
        """The messages that put a case to a judge. Raises ConfigError like `check`."""
        texts = self.check(case)
        nonce = nonce_of(self.name, *texts.values())
        blocks = []
        for field in self.fields:
            text = clean_text(_cut_middle(texts[field.name], field.max_chars))
            text = text or ("(empty)" if field.required else "(not given)")
            blocks.append(delimited(field.name, text, nonce))
        question = fill(prompt(_PACKAGE, "case"), nonce=nonce, material="\n\n".join(blocks), how=self.how(form))
        return [{"role": "system", "content": self.text}, {"role": "user", "content": question}]


def _cut_middle(text: str, limit: int) -> str:
    """The text with its middle replaced by a note where it is longer than `limit` characters."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    return f"{text[:head]}\n… [cut: {len(text) - limit} characters] …\n{text[head - limit :]}"


def _shipped(name: str, version: int, fields: tuple[Field, ...], grades: Mapping[str, float]) -> JudgePrompt:
    return JudgePrompt(name, version, prompt(_PACKAGE, name), fields, grades)


EVIDENCE_SUPPORT = _shipped(
    "evidence-support",
    1,
    (Field("question", 4_000), Field("answer", 2_000), Field("evidence", 12_000)),
    {"sufficient": 1.0, "insufficient": 0.0},
)
"""EVE: is the evidence, with the question, sufficient to recover the answer?"""

PROBE_CHECK = _shipped(
    "probe-check",
    1,
    (
        Field("source", 24_000),
        Field("probe", 4_000),
        Field("label", 100),
        Field("original", 4_000, required=False),
        Field("error_type", 100, required=False),
    ),
    {"pass": 1.0, "not-fluent": 0.0, "undetectable": 0.0, "wrong-label": 0.0, "wrong-type": 0.0},
)
"""SEVA: is the probe fluent, its label decidable and right, and its error the intended one?"""

PROMPTS: Mapping[str, JudgePrompt] = MappingProxyType(
    {rubric.name: rubric for rubric in (EVIDENCE_SUPPORT, PROBE_CHECK)}
)
"""The shipped rubrics by name."""
