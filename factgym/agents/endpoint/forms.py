"""The forms in which one server takes conversations, learnt from its refusals.

Some servers want the reasoning of earlier replies back, others refuse it; chat templates refuse a system message, a tool
message, or two messages of one role in a row, in many words and with status 400, 422 or 500. So a request that may have
been refused for the form of its messages is sent again in others, the least change first. A form that is taken is kept,
and recorded; where none is, the first error stands.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace

from factgym.agents.endpoint.faults import REASONING, Fault
from factgym.agents.endpoint.reply import ChatReply
from factgym.agents.endpoint.request import Form, Transcript
from factgym.agents.folding import FOLDS, REASONING_REFUSED, Fold, fold, foldings
from factgym.agents.sampling import SendReasoning
from factgym.core.messages import Message

Ask = Callable[[bytes, bool], Awaitable[ChatReply | Fault]]
"""`await ask(messages, patient)`: the reply to a JSON list of messages. Not patient: a fault that speaks of the messages
is returned at once, also where it seems transient."""

_MAX_FORMS = 10
_REASONING_NAME = re.compile(rf"[a-z_]*(?:{REASONING.pattern})[a-z_]*", re.IGNORECASE)
_VARIABLE = re.compile(r" \(after \d+ requests\)$|\d+")
"""Parts of an error's text that differ between requests."""


class Forms:
    """The forms that a server takes. adapted: gets a line for each change that the server asked for.

    A fold is applied to the conversations that hold what was refused, and to no others: transitions, pairs of
    neighbouring messages (`Transcript.transitions`), that came in refused requests and in none that was taken.
    """

    def __init__(self, send_reasoning: SendReasoning, adapted: set[str]) -> None:
        self._setting = send_reasoning
        self._adapted = adapted
        self._base = Form(reasoning=send_reasoning != "never")
        self._folds: dict[tuple[str, str], frozenset[Fold]] = {}
        self._taken: set[tuple[str, str]] = set()
        self._hopeless: set[tuple[str, frozenset[tuple[str, str]]]] = set()

    def write(
        self, messages: Sequence[Message], transcript: Transcript, form: Form | None = None
    ) -> tuple[bytes, Form]:
        """The JSON list of the messages in a form, by default in the one that the server takes, and that form."""
        if form is None:
            form = self._base
            body = transcript.messages(fold(messages, form.folds), form)
            folds = [self._folds[pair] for pair in transcript.transitions() & self._folds.keys()] if self._folds else []
            if not folds:
                return body, form
            form = replace(form, folds=form.folds.union(*folds))
        return transcript.messages(fold(messages, form.folds), form), form

    async def exchange(self, messages: Sequence[Message], transcript: Transcript, ask: Ask) -> ChatReply | Fault:
        """The reply to a conversation, in the form that the server takes."""
        body, form = self.write(messages, transcript)
        outcome = await ask(body, False)
        pairs = transcript.transitions()
        if isinstance(outcome, Fault) and may_be_refused(outcome):
            case = _VARIABLE.sub("", outcome.message), frozenset(pairs - self._taken)
            if case not in self._hopeless and (case[1] or outcome.about_messages):
                other = await self._in_other_forms(messages, transcript, ask, outcome, form)
                if other is not None:
                    return other
                self._hopeless.add(case)
            if outcome.again and outcome.about_messages:
                body, _ = self.write(messages, transcript, form)
                outcome = await ask(body, True)
        if not isinstance(outcome, Fault):
            self._take(transcript, form)
        return outcome

    async def _in_other_forms(
        self, messages: Sequence[Message], transcript: Transcript, ask: Ask, fault: Fault, form: Form
    ) -> ChatReply | Fault | None:
        """The outcome in the first other form that is not refused; None where all are."""
        refused, (first, _) = transcript.transitions(), self.write(messages, transcript, form)
        tried = {first}
        candidates = self._candidates(messages, transcript, fault, form)
        while len(tried) < _MAX_FORMS and (candidate := next(candidates, None)) is not None:
            body, _ = self.write(messages, transcript, candidate)
            if body in tried:
                continue
            tried.add(body)
            outcome = await ask(body, False)
            if not isinstance(outcome, Fault) or outcome.cause == "overflow":
                # An error of the moment would be over by now: the first form is tried once more.
                again = await ask(first, False) if fault.again and not fault.about_messages else fault
                if not isinstance(again, Fault):
                    self.write(messages, transcript, form)
                    return again
                self._adopt(candidate, transcript, refused)
                return outcome
            if not may_be_refused(outcome):
                return outcome
            if _VARIABLE.sub("", outcome.message) != _VARIABLE.sub("", fault.message):
                # Something else is refused now: go on from here.
                fault, form = outcome, candidate
                refused |= transcript.transitions()
                candidates = self._candidates(messages, transcript, fault, form)
        return None

    def _candidates(
        self, messages: Sequence[Message], transcript: Transcript, fault: Fault, form: Form
    ) -> Iterator[Form]:
        """Forms to try after a refusal: those that its words suggest first."""
        yield self.write(messages, transcript)[1]  # another episode may have learnt meanwhile
        if self._setting != "auto" and _REASONING_NAME.search(fault.message):
            return  # the user's own setting is refused
        yield from self._other_reasoning(transcript, fault, form)
        for folds, _ in foldings(messages, form.folds):
            yield replace(form, folds=folds)

    def _other_reasoning(self, transcript: Transcript, fault: Fault, form: Form) -> list[Form]:
        names = _REASONING_NAME.findall(fault.message)
        key = next((name for name in names if name in transcript.reasoning_keys or "_" in name), "")
        if self._setting != "auto":
            return []
        demanding = [replace(form, reasoning=True, demanded=key)] if key else []
        if names and not form.reasoning:
            demanding.insert(0, replace(form, reasoning=True))
        without = [replace(form, reasoning=False, demanded="")] if form.reasoning else []
        return demanding + without if key and transcript.lacks(key) else without + demanding

    def _adopt(self, form: Form, transcript: Transcript, refused: set[tuple[str, str]]) -> None:
        """Keep a form that was taken where another was refused. refused: transitions of the refused requests."""
        self._take(transcript, form)
        new_folds = form.folds - self._base.folds
        if new_folds and (pairs := refused - self._taken):
            self._folds |= {pair: self._folds.get(pair, frozenset()) | new_folds for pair in pairs}
            self._base = replace(self._base, reasoning=form.reasoning, demanded=form.demanded)
        else:
            self._base = form
        self._adapted |= {FOLDS[name] for name in form.folds}
        if self._setting == "auto" and not form.reasoning:
            self._adapted.add(REASONING_REFUSED)
        if form.demanded:
            self._adapted.add(f"every earlier reply is sent with {form.demanded}")

    def _take(self, transcript: Transcript, form: Form) -> None:
        """Note the transitions of a request that the server took, and the reasoning in it."""
        self._taken |= transcript.transitions()
        if form.reasoning and transcript.sent_reasoning:
            keys = ("<think> in the content" if key == "content" else key for key in sorted(transcript.reasoning_keys))
            self._adapted.add(f"reasoning is sent back as {' and '.join(keys)}")


def may_be_refused(fault: Fault) -> bool:
    """Whether a request may have been refused for its messages."""
    return (fault.cause == "bad_request" and not fault.setting) or (
        fault.cause == "server" and fault.status in (500, 501)
    )
