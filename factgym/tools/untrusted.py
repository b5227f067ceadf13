"""Text from documents is untrusted: it is delimited, and it can neither close its delimiter nor look like a call.

The markers that mean something in a conversation (every tag that a parser or a prompt of this package knows, tool calls
and results of the usual formats, reasoning, the special tokens of chat templates) lose their first character to a look-alike, `<` to `‹` and `[` to `［`. One character replaces
one, so character offsets into a passage stay true; `find_quote` compares texts that were both neutralised.
"""

from __future__ import annotations

import re
from functools import lru_cache

_OURS = "evidence|result|document|question|answer|claim|source|example|search|read|submit|list"
_OTHERS = "information|observation|context|passage|query|verdict|plan"
"""Tags of search agents elsewhere, which a trained model may have learned to obey."""
_CALLS = "tool_calls?|tool_response|tools|think(?:ing)?|function(?:_calls?|_results?)?|invoke|parameter"
_TOKENS = "s|bos|eos|pad|unk|(?:start|end)_of_turn"
_MARKERS = re.compile(
    rf"<(?=/?(?:{_OURS}|{_OTHERS}|{_CALLS}|{_TOKENS})\b|</?SYS>>|/?[|｜])"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|THINK)\])",
    re.IGNORECASE,
)
_HARMLESS = {"<": "‹", "[": "［"}


def neutralise(text: str) -> str:
    """The text with conversation markers made harmless; of the same length, and unchanged when there are none."""
    return _MARKERS.sub(lambda match: _HARMLESS[match[0]], text) if "<" in text or "[" in text else text


@lru_cache(maxsize=8192)  # of ids and titles, which every search and every list shows again
def attribute(text: str) -> str:
    """The text as an attribute value inside double quotes."""
    return neutralise(" ".join(text.split())).replace('"', "'")
