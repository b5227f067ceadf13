"""The fixed prompt of a judge: its fields, its grades, and how a case is written so that it stays material.

EVE (appendix on the evaluation protocol): a judge sees question, gold answer and emitted span, and decides whether
the question with the span is sufficient to recover the answer. SEVA (appendix on adversarial data): a probe is kept
when its perturbation is detectable, it reads fluently and it has the intended error. The words here are our own.

What is judged was written by whoever wants a good judgement. Each text stands between tags that it cannot close, and
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
from factgym.tools.toolbox import Tool
from factgym.tools.untrusted import neutralise

SUBMIT = "submit_judgement"

AnswerForm = Literal["tool", "json"]
"""How a judge answers: by a call of `submit_judgement`, or with a JSON object as text."""

_PACKAGE = "factgym.agents.judges"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_OBJECT = re.compile(r"\{(?=\s*[\"'}])")
_NOT_GIVEN = "(not given)"


@dataclass(frozen=True, slots=True)
class Field:
    """One text of a case. name: of its tags, too. max_chars: of it that a judge sees; the middle of a longer one is cut."""

    name: str
    max_chars: int
    required: bool = True


@dataclass(frozen=True)
class JudgePrompt:
    """A rubric: what is asked, about which fields, and what each answer is worth.

    text: the instructions. grades: label -> score in [0, 1], the best first; two labels worth 1 and 0 make the scale
    binary. version: raised with every change of meaning. Raises ConfigError for what makes no rubric.
    """

    name: str
    version: int
    text: str
    fields: tuple[Field, ...]
    grades: Mapping[str, float]

    def __post_init__(self) -> None:
        if len(set(self.grades.values())) < 2 or not all(0 <= score <= 1 for score in self.grades.values()):
            raise ConfigError(f"rubric {self.name!r}: grades are labels with at least two scores in [0, 1]")
        names = [one.name for one in self.fields]
        if not names or len(set(names)) < len(names) or not all(_NAME.fullmatch(name) for name in names):
            raise ConfigError(f"rubric {self.name!r}: fields have different names of lower-case letters, digits and _")
        object.__setattr__(self, "grades", MappingProxyType(dict(self.grades)))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.version, self.text, self.fields, dict(self.grades))

    @property
    def scale(self) -> Literal["binary", "graded"]:
        """Whether the answer is yes or no, or one of several grades."""
        return "binary" if sorted(self.grades.values()) == [0, 1] else "graded"

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
        return Tool(SUBMIT, "Submit the judgement on the case.", self.schema, lambda desk, **said: said, json.dumps)

    def how(self, form: AnswerForm) -> str:
        """How to answer, as the judge reads it."""
        labels = ", ".join(json.dumps(label) for label in self.grades)
        example = json.dumps({"reason": "…", "label": "…"}, ensure_ascii=False)
        return fill(prompt(_PACKAGE, f"by-{form}"), labels=labels, example=example)

    def fingerprint(self, form: AnswerForm) -> str:
        """SHA-256, in hex, of all that a judge is asked and may answer, the case apart."""
        fields = [[one.name, one.max_chars, one.required] for one in self.fields]
        parts = [self.name, self.version, self.text, prompt(_PACKAGE, "case"), prompt(_PACKAGE, "again")]
        return prompt_hash(json.dumps([*parts, self.how(form), fields, dict(self.grades), self.schema]))

    def check(self, case: Case) -> dict[str, str]:
        """The case's texts in the order of the fields. Raises ConfigError that names what is missing or unknown."""
        known = [one.name for one in self.fields]
        for name in case:
            if name not in known:
                hint = did_you_mean(str(name), known)
                raise ConfigError(f"a case of {self.name!r} has no field {name!r}.{hint} It has: {', '.join(known)}.")
        found = {}
        for one in self.fields:
            text = case.get(one.name, None if one.required else "")
            if not isinstance(text, str):
                what = "is missing" if text is None else f"must be a text, not {type(text).__name__}"
                raise ConfigError(f"a case of {self.name!r}: {one.name} {what}")
            found[one.name] = text
        return found

    def messages(self, case: Case, form: AnswerForm) -> list[Message]:
        """The messages that put a case to a judge. Raises ConfigError like `check`."""
        texts = self.check(case)
        blocks = [f"<{one.name}>\n{self._material(one, texts[one.name])}\n</{one.name}>" for one in self.fields]
        asked = fill(prompt(_PACKAGE, "case"), material="\n\n".join(blocks), how=self.how(form))
        return [{"role": "system", "content": self.text}, {"role": "user", "content": asked}]

    def _material(self, field: Field, text: str) -> str:
        text = clean_text(_cut(text, field.max_chars))
        harmless = _OBJECT.sub("｛", self._tags.sub("‹", neutralise(text)))
        return harmless or ("(empty)" if field.required else _NOT_GIVEN)

    @cached_property
    def _tags(self) -> re.Pattern[str]:
        names = "|".join(one.name for one in self.fields)
        return re.compile(rf"<(?=\s*/?\s*(?:{names})\b)", re.IGNORECASE)


def _cut(text: str, most: int) -> str:
    """The text with its middle cut out, and that said, where it is longer than `most` characters."""
    if len(text) <= most:
        return text
    head = most * 2 // 3
    return f"{text[:head]}\n… [cut: {len(text) - most} characters] …\n{text[head - most :]}"


def _shipped(name: str, version: int, fields: tuple[Field, ...], **grades: float) -> JudgePrompt:
    labels = {label.replace("_", "-"): score for label, score in grades.items()}
    return JudgePrompt(name, version, prompt(_PACKAGE, name), fields, labels)


EVIDENCE_SUPPORT = _shipped(
    "evidence-support",
    1,
    (Field("question", 4_000), Field("answer", 2_000), Field("evidence", 12_000)),
    sufficient=1.0,
    insufficient=0.0,
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
    **{"pass": 1.0},
    not_fluent=0.0,
    undetectable=0.0,
    wrong_label=0.0,
    wrong_type=0.0,
)
"""SEVA: does the probe read fluently, can its label be told, is it right, and is the error the intended one?"""

NEXT_STEP = _shipped(
    "next-step",
    1,
    (Field("conversation", 40_000), Field("step", 8_000)),
    good=1.0,
    fair=0.5,
    poor=0.0,
)
"""For best-of-n: how much the next step of an agent does for its task."""

PROMPTS: Mapping[str, JudgePrompt] = MappingProxyType(
    {one.name: one for one in (EVIDENCE_SUPPORT, PROBE_CHECK, NEXT_STEP)}
)
"""The shipped rubrics by name."""


def find_prompt(name: str) -> JudgePrompt:
    """A shipped rubric. Raises ConfigError for a name that there is not."""
    if name not in PROMPTS:
        raise ConfigError(
            f"there is no rubric {name!r}.{did_you_mean(name, PROMPTS)} There are: {', '.join(PROMPTS)}."
        )
    return PROMPTS[name]
