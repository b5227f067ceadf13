"""Reasoning apart from the answer: `<think>…</think>` in a reply's text.

Models write it in three ways: whole at the beginning; with the opening tag in the prompt, so that the reply holds the
closing one alone; or cut off before the closing tag, when the whole rest is reasoning.
"""

from __future__ import annotations

_OPEN, _CLOSE = "<think>", "</think>"


def split_reasoning(text: str, opened: bool = False) -> tuple[str, str]:
    """The reasoning and the answer of a reply, each without white space around it when there is reasoning.

    opened: the prompt ended inside a `<think>`. A text without reasoning comes back unchanged as the answer. Only
    reasoning at the beginning is taken out: a tag inside the answer is the answer's.
    """
    body = text.lstrip()
    if body.startswith(_OPEN):
        body = body[len(_OPEN) :]
    elif (not opened and _CLOSE not in body) or (not opened and _OPEN in body.partition(_CLOSE)[0]):
        return "", text
    reasoning, closed, answer = body.partition(_CLOSE)
    return reasoning.strip(), answer.strip() if closed else ""
