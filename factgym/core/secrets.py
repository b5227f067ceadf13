"""Secrets in settings and texts: recognized by their names and by their form, and redacted in all that is written."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

REDACTED = "[key]"

_WORD_BORDER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NAME = re.compile(
    r"(?:^|[_-])(?:api[_-]?key|(?:access|private|secret|service|account|encryption|signing)[_-]?key|secrets?|pass"
    r"|password|passwd|passphrase|pwd|token|bearer|authorization|auth|credentials?|cookie)$",
    re.IGNORECASE,
)
_KEY = re.compile(r"(?:^|[_-])keys?$", re.IGNORECASE)
_RANDOM = re.compile(r"(?=\S*\d)(?=\S*[A-Za-z])[\w.+/=~-]{16,}")
"""Of a setting whose name ends in `key`, a value of this form; `sort_key = "name"` is none."""

_VALUE = re.compile(
    r"\b(?:sk-[\w-]{16,}|hf_[A-Za-z0-9]{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{20,}|AKIA[A-Z0-9]{16}"
    r"|AIza[\w-]{30,}|gsk_\w{20,}|xai-\w{20,}|nvapi-[\w-]{20,}|pplx-\w{20,}|r8_\w{20,}|xox[abprs]-[\w-]{10,}"
    r"|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*)|\bbearer\s+[^\s\"']{8,}"
    r"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?:[^-]|-(?!----)){0,8000}+(?:-----END [A-Z ]{0,30}PRIVATE KEY-----)?",
    re.IGNORECASE,
)
"""Keys of OpenAI, Anthropic, Hugging Face, GitHub, GitLab, AWS, Google, Groq, xAI, NVIDIA, Perplexity, Replicate and
Slack, JSON Web Tokens, HTTP's bearer tokens, and private keys in PEM."""

_PASSWORD_IN_URL = re.compile(r"(?<=://)[^\s/:@]{0,200}:[^\s/@]{1,200}(?=@)")
_MIN_CHARS = 8
"""A shorter value is no secret that could be told from other text."""

_MAX_DEPTH = 64


def is_secret(name: str, value: Any) -> bool:
    """Whether a setting holds a secret by its name. Numbers, switches and empty values hold none."""
    if value is None or isinstance(value, (bool, int, float)) or value in ("", b""):
        return False
    words = _WORD_BORDER.sub("_", name)
    return bool(_NAME.search(words) or (_KEY.search(words) and isinstance(value, str) and _RANDOM.fullmatch(value)))


def redact_text(text: str, secrets: Collection[str] = ()) -> str:
    """A text without strings that look like a secret, and without the given strings."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, REDACTED)
    return _PASSWORD_IN_URL.sub(REDACTED, _VALUE.sub(REDACTED, text))


def redact(value: Any, secrets: Collection[str] = ()) -> Any:
    """JSON data without secrets, at any depth; names of members stay."""
    if isinstance(value, str):
        return redact_text(value, secrets)
    if isinstance(value, Mapping):
        return {key: REDACTED if is_secret(str(key), item) else redact(item, secrets) for key, item in value.items()}
    return [redact(item, secrets) for item in value] if isinstance(value, (list, tuple)) else value


def secret_values(settings: Any, depth: int = 0) -> Iterator[str]:
    """The secrets that settings hold by their names, at any depth, so that texts which quote them can be redacted."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(settings, Mapping):
        for name, value in settings.items():
            if not is_secret(str(name), value):
                yield from secret_values(value, depth + 1)
            elif isinstance(value, str):
                yield from (value,) if len(value) >= _MIN_CHARS else ()
            else:
                yield from _strings(value, depth + 1)
    elif isinstance(settings, (list, tuple)):
        for value in settings:
            yield from secret_values(value, depth + 1)


def _strings(value: Any, depth: int) -> Iterator[str]:
    """Yield the texts within a value that are long enough to be a secret, to a bounded depth."""
    if isinstance(value, str):
        yield from (value,) if len(value) >= _MIN_CHARS else ()
    elif depth <= _MAX_DEPTH and isinstance(value, (Mapping, list, tuple)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _strings(item, depth + 1)
