"""Text from documents, models and servers is untrusted: it is delimited by tags that it cannot imitate.

A delimiter ends in a code that is drawn from the task, `<evidence id="E5" title="Leave" qzkv>…</evidence qzkv>`: whoever
wrote the text before does not know it. Inside, `neutralise` replaces the first character of whatever could pass for
markup (a tag, a special token of a chat template, a key of a JSON object that a parser would run) by a look-alike: `<` by
`‹`, `[` by `⟦`, `"` by `“`. Markup is recognised as a reader of a canonical view would see it: HTML entities decoded, NFKC,
without invisible characters, look-alike letters folded, whatever the case and the spaces in a tag. One character
replaces one, so character offsets into a passage stay true; `find_quote` compares texts that were both neutralised.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

NO_NONCE = "none"
"""The code of delimiters outside an episode."""

_SAFE = "‹⟦⟧❴ˋ꞊“"
_MARKS = rf"€£¥¢−–—±≤≥≈½¼¾°{_SAFE}"
_KNOWN = (
    r"evidence|result|document|question|answer|claim|source|example|search|read|submit|list|information|observation"
    r"|context|passage|query|verdict|plan|case|system|user|assistant|human|developer|model|tool\w*|think\w*|function\w*"
    r"|invoke|parameter|probe|label|original|error_type|conversation|step|instructions?|arg_\w+|im_\w+|[se]os|bos|pad|unk"
    r"|s|sop|inst|start\w*|end\w*|turn"
)
_TOKENS = (
    r"INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_\w+|ARGS|CALL_ID|THINK|MODEL_SETTINGS|IMG\w*|BEGIN_AUDIO|AUDIO|REF|PREFIX"
    r"|SUFFIX|MIDDLE|CLS|SEP|MASK|PAD|UNK|BOS|EOS|gMASK|sMASK"
)
_HTML = (
    "a|abbr|b|big|blockquote|br|caption|center|cite|code|col|colgroup|dd|del|dfn|div|dl|dt|em|figcaption|figure|font|h[1-6]"
    "|hr|i|img|ins|kbd|li|mark|ol|p|pre|rb|rp|rt|ruby|samp|section|small|span|strike|strong|su[bp]|table|tbody|td|tfoot|th"
    "|thead|tr|tt|u|ul|var|ref|nowiki|includeonly"
)
"""Elements of HTML and MediaWiki that texts are formatted with: no parser or template obeys them."""
# Directly after "<" a letter opens a tag, and so does any character outside ASCII but currency and minus signs. "a < b"
# and "p < 0.05" are comparisons: after white space only a slash, a bar, a known name, or a word with a character outside
# ASCII does.
_OPENS = (
    rf"(?:(?=<?[A-Za-z/|!?\\&_\]\x00-\x08\x0e-\x1b\x7f])(?!/?(?=[A-Za-z]\w{{0,10}}(?:\s|/?>))(?i:{_HTML})(?:\s|/?>))|(?=[^\x00-\x7f\s{_MARKS}]"
    rf"|\s++(?:[/|&]|(?=[A-Za-z])(?i:{_KNOWN})\b|[A-Za-z_]*+[^\W\x00-\x7f]|\w*+[^\x00-\x7f\w\s{_MARKS}])))"
)
_TOKEN = rf"\s*+/?\s*+(?i:{_TOKENS})\s*+(?:\]|(?i:&r(?:brack|sqb)|&\#0*+93|&\#x0*+5d))"
"""A token in square brackets of Mistral, BERT or GLM, after its opening bracket."""
_BRACKETED = (
    rf"(?:(?={_TOKEN}|\s*+\||e~\[|\w[\w.]*+\(\s*+(?:\w++\s*+=|\)))"
    r"|(?=([^\[\]［﹇］﹈\n]{1,48}+(?:[\]］﹈]|&[#\w]{1,9};))))"
)
_KEYS = (
    "name|tool|tool_name|tool_calls?|function|function_call|arguments|args|parameters|query_list|questions?|answer|claim|label"
    "|final_verdict|evidence_alignment|reasoning_chain|confidence|error_type|fix_suggestion"
)
"""Keys of JSON objects that a parser takes for a call or a submission; escaped ones are."""
_KEY = rf"(?=(?:{_KEYS})(?:[\"＂]\s*+[:：﹕]|&)|\w*+\\u[0-9A-Fa-f])"
_IGNORABLE = (
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
"""Characters that show nothing (Unicode's Default_Ignorable_Code_Point)."""


def _escaped(names: str, codes: str) -> str:
    """Return a pattern of the HTML entities of some characters, also where their "&" is escaped again."""
    numbers = [int(code, 16) for code in codes.split()]
    decimal, hexadecimal = ("|".join(format(number, form) for number in numbers) for form in "dx")
    again = r"(?:(?:amp|\#0*+38|\#x0*+26);?+)*+"
    return rf"(?i:&{again}(?:{names}|\#0*+(?:{decimal})|\#x0*+(?:{hexadecimal}));?+)"


_WIDE = re.compile("[＜﹤˂ᐸ≮◁［﹇＆﹠＂]")
_WIDE_ENTITY = re.compile(
    f"[&＆﹠](?=([#＃﹟lｌnｎaａ{_IGNORABLE[1:-1]}][\\w#＃﹟;；{_IGNORABLE[1:-1]}]{{1,16}}))", re.IGNORECASE
)
_QUOTES = re.compile(f'["＂]|{_escaped("quot", "22 ff02")}')
_LOOKALIKES = str.maketrans(
    "АВСЕНІЈКМОРЅТХҮаеіјорсуѕхһԁԛԝ" "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧοντιυ" "ՏՕօսոհ" "＿",
    "ABCEHIJKMOPSTXYaeijopcysxhdqw" "ABEZHIKMNOPTYXovtiu" "SOouNh" "_",
)  # fmt: skip
"""Cyrillic, Greek and Armenian letters that look like a Latin one (Unicode's confusables.txt)."""


@cache
def _escaped_marks() -> tuple[tuple[str, re.Pattern[str]], ...]:
    rows = (
        ("‹", "lt|nlt|nvlt|nless", "3c ff1c fe64 2c2 1438 226e", _OPENS),
        ("⟦", "lbrack|lsqb", "5b ff3b fe47", _BRACKETED),
        ("“", "quot", "22 ff02", _KEY),
    )
    return tuple((mark, re.compile(_escaped(names, codes) + follows)) for mark, names, codes, follows in rows)


def canonical(text: str) -> str:
    """Return a text as it is compared: entities decoded, NFKC, without invisible characters, look-alikes folded."""
    from html import unescape

    while text != (text := unescape(unicodedata.normalize("NFKC", re.sub(_IGNORABLE, "", text)))):
        pass
    return text.translate(_LOOKALIKES)


def neutralise(text: str) -> str:
    """Return the text without markup; of the same length, and unchanged where there is none."""
    is_wide = not text.isascii() and _WIDE.search(text) is not None
    for trigger, pattern, replacement in _RULES:
        if is_wide or trigger in text:
            text = pattern.sub(replacement, text)
    if is_wide or "&" in text:
        for mark, pattern in _escaped_marks():
            text = pattern.sub(partial(_replace_mark, mark), text)
        if not text.isascii():
            text = _WIDE_ENTITY.sub(lambda match: "‹" if _is_mark(match[0] + match[1]) else match[0], text)
    return text


def _replace_mark(mark: str, match: re.Match[str]) -> str:
    """Return the match with another first character if it is markup: surely, or as the name of a token in brackets."""
    content = match[1] if match.re.groups else None
    is_markup = content is None or ((not content.isascii() or "&" in content) and _is_token(content))
    return mark + match[0][1:] if is_markup else match[0]


# The characters of a class are those that NFKC, the removal of accents (≮) or Unicode's list of confusables turns into
# the first. The last three are calls whose special tokens a server may have left out: of Kimi, Harmony and Gemma.
_RULES: tuple[tuple[str, re.Pattern[str], Any], ...] = (
    ("<", re.compile("[<＜﹤˂ᐸ≮◁]" + _OPENS), "‹"),
    ("[", re.compile(r"[\[［﹇]" + _BRACKETED), partial(_replace_mark, "⟦")),
    ("]~", re.compile(r"\](?=~!?b[\[\]])"), "⟧"),
    ('"', re.compile('["＂]' + _KEY), "“"),
    ("{", re.compile(r"(?<=\w)([ \t]*+)\{(?=\s*+[\"＂])"), r"\1❴"),
    ("functions.", re.compile(r"(?<=\bto)=(?=functions\.)"), "꞊"),
    ("```", re.compile(r"```(?=\s*+tool_code)", re.IGNORECASE), "ˋ``"),
)
"""Text that must occur, pattern and replacement."""


@lru_cache(maxsize=4096)
def _is_token(content: str) -> bool:
    return re.match(_TOKEN, canonical(content)) is not None


@lru_cache(maxsize=4096)
def _is_mark(entity: str) -> bool:
    return not entity.isascii() and canonical(entity)[0] in "<["


@lru_cache(maxsize=8192)  # of ids and titles, which every search and every list shows again
def attribute(text: str) -> str:
    """Return the text as an attribute value inside double quotes."""
    flat = neutralise(" ".join(text.split()))
    return flat if flat.isalnum() else _QUOTES.sub(lambda match: "'" + match[0][1:], flat)


def nonce_of(*key: str) -> str:
    """Return the code of an episode's delimiters: four letters, two tokens or three, from the SHA-256 of its key."""
    digest = hashlib.sha256("\n".join(key).encode("utf-8", "surrogatepass")).digest()
    return "".join([chr(97 + int.from_bytes(digest[start : start + 4]) % 26) for start in (0, 4, 8, 12)])


def opening(tag: str, nonce: str, **attributes: str | None) -> str:
    """Return the opening delimiter. An attribute of None is left out."""
    values = "".join([f' {name}="{attribute(value)}"' for name, value in attributes.items() if value is not None])
    return f"<{tag}{values} {nonce}>"


def cut_delimited(text: str, length: int) -> tuple[str, str]:
    """Return the first `length` characters, fewer where a delimiter would be cut, and the closing delimiter that they lack."""
    missing = ""
    for match in _DELIMITER.finditer(text):
        if match.end() > length:
            return text[: min(length, match.start())], missing
        missing = "" if match[1] else f"\n</{match[2]} {match[3]}>"
    return text[:length], missing


def delimited(tag: str, text: str, nonce: str, *, inline: bool = False, **attributes: str | None) -> str:
    """Return the text, neutralised, between delimiters, on lines of its own unless `inline`."""
    line = "" if inline else "\n"
    return f"{opening(tag, nonce, **attributes)}{line}{neutralise(text)}{line}</{tag} {nonce}>"


class Block(NamedTuple):
    """A delimited text. closed: False where the observation was cut before the closing delimiter."""

    tag: str
    attributes: dict[str, str]
    text: str
    closed: bool = True


_DELIMITER = re.compile(r'<(/?)([a-z]\w*)(?: [a-z]\w*="[^"]*")*+ ([a-z]{4})>')
_OPENING = re.compile(r'<([a-z]\w*)((?: [a-z]\w*="[^"]*")*+) ([a-z]{4})>\n?')
_ATTRIBUTE = re.compile(r' (\w+)="([^"]*)"')


def read_blocks(text: str, *tags: str) -> Iterator[Block]:
    """Yield the delimited texts of an observation in order; with `tags`, those of these tags."""
    position = 0
    while (match := _OPENING.search(text, position)) is not None:
        tag, values, nonce = match.groups()
        start = position = match.end()
        if tags and tag not in tags:
            continue
        end = text.find(f"</{tag} {nonce}>", start)
        following = _OPENING.search(text, start) if end < 0 else None
        stop = end if end >= 0 else following.start() if following else len(text)
        position = stop
        body = text[start:stop]
        yield Block(tag, dict(_ATTRIBUTE.findall(values)), body.removesuffix("\n") if end >= 0 else body, end >= 0)
