"""The attack set of `imitations.json`, and what survives of it in a canonical view that is written independently.

The view takes its rules from the standards: character references of HTML by `html.unescape`, NFKC and the categories of
`unicodedata`, and the letters of Unicode's confusables.txt (UTS #39) that the attack set uses.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from pathlib import Path

DATA = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
CONFUSABLES = dict(zip("асеорѕіυονιιІ≮˂ᐸ", "aceopsiuovii I<<<".replace(" ", ""), strict=True))
_STYLES = {
    "upper": str.upper,
    "wide": lambda tag: "".join(chr(ord(letter) + 0xFEE0) if letter != "_" else "＿" for letter in tag),
    "bold": lambda tag: "".join(chr(ord(letter) - 97 + 0x1D41A) if letter.isalpha() else letter for letter in tag),
    "cyrillic": lambda tag: tag.translate(str.maketrans("aceops", "асеорѕ")),
    "greek": lambda tag: tag.translate(str.maketrans("uov", "υον")),
    "accent": lambda tag: f"{tag[0]}\u0301{tag[1:]}",
}
MARKER = "PLANTED"
"""Word around every planted text, to see that it was shown."""


def imitations(nonce: str, *, all_tags: bool = False) -> list[str]:
    """Return the attacks; each evasion for every tag, or else for the next one."""
    tags = [*DATA["delimiters"], *DATA["roles"]]
    texts = list(DATA["tokens"].values())
    for number, template in enumerate(DATA["evasions"].values()):
        for tag in tags if all_tags else tags[number % len(tags) :][:1]:
            texts.append(re.sub(r"TAG(?::(\w+))?", lambda match, tag=tag: _styled(tag, match[1]), template))
    return [text.encode("utf-16", "surrogatepass").decode("utf-16").replace("NONCE", nonce) for text in texts]


def _styled(tag: str, style: str | None) -> str:
    if style and style.startswith("split"):
        return f"{tag[:2]}{style.removeprefix('split')}{tag[2:]}"
    return _STYLES[style](tag) if style else tag


def view(text: str) -> str:
    """Return the canonical view."""
    invisible = {"Cf", "Cc", "Cn", "Co"}
    before = None
    while text != before:
        before = text
        text = "".join(
            character
            for character in html.unescape(text)
            if (unicodedata.category(character) not in invisible or character in "\t\n\r")
            and not 0xFE00 <= ord(character) <= 0xFE0F
            and character not in "\u034f\u115f\u1160\u3164\uffa0"
        )
        text = "".join(CONFUSABLES.get(character, character) for character in unicodedata.normalize("NFKC", text))
    return "".join(
        character for character in unicodedata.normalize("NFD", text) if not unicodedata.combining(character)
    )


_NAMES = "|".join(
    [*DATA["delimiters"], *DATA["roles"], r"search|read|submit|s|bos|eos|sop|function\w*|invoke|parameter"]
)
_MARKUP = re.compile(
    rf"<[\s\\]*[/|!?]|<\s*(?:\w+:)?(?:{_NAMES}|\w*_\w+|TOOLCALL)\b|<\w+[|=]"
    r"|\[\s*/?\s*(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_\w+|ARGS|CALL_ID|THINK|MODEL_SETTINGS|CLS|SEP|MASK|gMASK)\s*\]"
    r"|\[\||\]~!?b[\[\]]|\[e~\[|\[\w+\((?:\)|\w+=)|◁/?think|```tool_code|\bto=functions\."
    r"|[\"'](?:name|tool|function|arguments|parameters|query_list|final_verdict|label|n\\u0061me)[\"']\s*:"
    r'|\w[ \t]*\{\s*"',
    re.IGNORECASE,
)


def survivors(text: str, nonce: str = "") -> list[str]:
    """Return the markup that is left in untrusted text in the canonical view."""
    seen = view(text)
    return [*_MARKUP.findall(seen), *(re.findall(rf"<[^<>]*{nonce}", seen) if nonce else [])]


def without_own(text: str, nonce: str) -> str:
    """Return an observation without the environment's own delimiters and the tags around tool results."""
    text = text.removeprefix("<tool_response>\n").removesuffix("\n</tool_response>")
    text = text.replace("\n</tool_response>\n<tool_response>\n", "\n")
    return re.sub(rf'</?[a-z]+(?: [a-z]+="[^"]*")* {nonce}>', lambda match: " ".join(match[0].split('"')[1::2]), text)
