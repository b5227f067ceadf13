"""Which sentences of a passage can be claims of their own, and where they stand.

A claim has to be checkable without its neighbours: a full declarative sentence, no list fragment that leans on its
introduction, no pronoun that points out of it, no citation, signature or table row. What is left out here costs
examples; what is let in wrongly costs labels, so the rules are strict.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from factgym.corpora.readers.document import lost_text
from factgym.corpora.sentences import sentences

_ITEM = re.compile(r"- |\d{1,3}[.)] |\(?[a-zA-Z]{1,4}[.)] |[•*·–] ")
_CLAUSE_NUMBER = re.compile(
    r"(?:(?:ARTICLE|Section|SECTION) )?\d{1,3}(?:\.\d{1,3})+\.? (?:\([a-z]{1,3}\) )?"
    r"|\d{1,2}\. |[A-Z]\. |\([a-zA-Z0-9]{1,4}\) "
)
_RUN_IN = re.compile(r"[A-Z][^.:;!?]{1,60}[:.] (?=[A-Z])")
_LEANING_WORDS = (
    "This That These Those It Its They Their He She His Her Such Here There Therefore Thus Hence Otherwise Instead Then But"
    " And Or So Yet Please Note Thank Thanks See Both Neither Either Additionally Similarly Likewise Accordingly Doing Below"
    " Above Step WHEREAS NOW Yes Not Nor Again Next First Second Third Finally Today Other Another Others Because Since While"
    " Which Who What How Why Where Is Are Can Do Does Unlike Like Last Effective Also Hello Dear Hi Maybe Perhaps"
)
_LEANING = re.compile(
    rf"(?:{_LEANING_WORDS.replace(' ', '|')}|For (?:example|instance)|In (?:this|that|these|such|WITNESS)|IN WITNESS|Some of"
    r"|As (?:such|used|noted|described)|To do|By doing|Once done|After that|No,|Don['’]t|Let['’]s|That['’]s|Failure to do so"
    r"|The (?:following|above|foregoing|former|latter|same|other)|A(?:ny|ll) (?:such|other)|All of|In addition to this"
    r"|(?:If|When) (?:so|not|this|that|they|it|such)|(?:If|When) (?:we|you) do so|(?:Per|Under|With) this)\b"
)
_IMPERATIVE_WORDS = (
    "Use Make Check Contact Refer Submit Email Send Ask Go Select Enter Review Work Read Visit Complete Follow Include Add Keep"
    " Log Open Fill Sign Provide Consider Be Have Get Let Try Find Give Take Talk Reach Remember Ensure Choose Create Click"
    " Write Start Call Pick Schedule Set Download Upload Attach Save Type Verify Confirm Request Return Report Respond Attend"
    " Bring Book Don Feel Never Always Update Notify Discuss Describe Identify Explain Determine Plan Look Learn Join Share"
    " Mark Pay Put Press Avoid Allow Apply Indicate List Limit Offer Post Print Prepare Receive Replace Show Speak State Stay"
    " Stop Tell Turn Watch Wait Approve Assign Build Change Close Copy Cut Delete Draft Edit Focus Help Hold Know Meet Move"
    " Obtain Outline Paste Perform Practice Protect Prove Record Recruit Reply Search Summarize Support Switch Tailor Test"
    " Think Track Understand View Conduct Consult Coordinate Demonstrate Develop Direct Document Evaluate Highlight Proceed"
)
_IMPERATIVE = re.compile(rf"(?:{_IMPERATIVE_WORDS.replace(' ', '|')})\b(?! [a-z]+ (?:is|are|must|may|will|can)\b)")
_OWN_SUBJECT = re.compile(
    r"(?:You|We|Your \w+|Our \w+|[A-Z]\w+ [A-Z]\w+|The \w+)"
    r" (?:must|shall|will|may|can|cannot|are|is|have|has|need|do|does)\b"
)
_CONNECTIVE = re.compile(
    r"(?:However|Moreover|Furthermore|In addition|Additionally|Also|In general|Of course|Accordingly|Nevertheless"
    r"|Generally speaking), (?=[a-zA-Z])"
)
_OUTWARD = re.compile(
    r"\b(?:as follows|the following|(?:set (?:out|forth)|listed|described) (?:below|above)|above[- ]mentioned|aforesaid"
    r"|aforementioned|this (?:section|page|table|list|step|case|option|type|process|information|right|way|means|group|form|box"
    r"|button|field|guide|post)|here|screenshot|click|e\.g|i\.e|per above|the above|foregoing|mentioned)\b",
    re.I,
)
_POINTING = re.compile(
    r"\b(?:do so|he|she|they|them|their|it|its|these|those|this|that|latter|former|such(?! as\b))\b"
    r"(?! agreement| policy| notice)",
    re.I,
)
_POINTING_CHARS = 24
"""Only a pronoun this early can point out of the sentence; a later one mostly finds its noun inside."""
_FINITE = re.compile(
    r"\b(?:must|shall|will|may|can|cannot|should|is|are|was|were|has|have|does|do|agrees?|requires|reserves|remains|applies"
    r"|provides|receives|grants|expires|becomes|accepts|allows|appoints|maintains|retains|includes|contains|warrants|represents"
    r"|acknowledges|\w+['’](?:ll|re|ve|t))\b|^(?:We|You) [a-z]+ "
)
_BAD = re.compile(
    r"https?:|www\.|@|__|/s/|\.\.|…|[|<>{}\\›•=~^#]|\*\*|\?|!|:|\[|\bet al\b|\betc\b|\$\s*\(|_|&c|--|; (?:or|and)\b"
)
_GLUED = re.compile(
    r"[A-Z]{4,} [A-Z]{2,}[. ]|.{0,250}\b\d{1,2}\.\d{1,2} [A-Z]|[IVX]+\. |\w+, (?:please|do not|don['’]t)\b"
    r"|(?:[A-Z][\w’'-]+ ){2,8}(?:Some|The|You|We|If|All|In|This|Each|Any|An?|When|For|Our|Your|It|As|No|Except|Subject) [a-z]"
)
_ENUMERATED = re.compile(r"\((?:[a-z]|[ivx]{1,4}|\d{1,2})\)")
_PERSONAL = re.compile(r"\b(?:I|me|my|I['’]\w+)\b")
_DEFINES = re.compile(
    r"\b(?:(?<!by )(?<!that )(?<!the )means?\b(?! of)|shall mean|please|(?:is|are|as) defined|has the meaning|hereinafter"
    r"|is called)\b",
    re.I,
)
_MIN_WORDS, _MAX_WORDS = 7, 55
_MIN_CHARS, _MAX_CHARS = 40, 360


@dataclass(frozen=True, slots=True)
class Candidate:
    """A usable sentence: `start` and `end` in its passage's text, without any list or clause number before it."""

    start: int
    end: int
    text: str


def find_candidates(text: str) -> Iterator[Candidate]:
    """The usable sentences of one passage, in order."""
    offset = 0
    introduced = True
    for line in text.split("\n"):
        item = _ITEM.match(line) is not None
        if not line.startswith("    "):
            yield from _in_line(line, offset, item=item, leaning=item and introduced)
        if not item:
            introduced = line.rstrip().endswith(":")
        offset += len(line) + 1


def _in_line(line: str, offset: int, *, item: bool, leaning: bool) -> Iterator[Candidate]:
    """`leaning`: the line is an item of a list that completes its introduction, so its first sentence does not count."""
    for number, (start, end) in enumerate(sentences(line)):
        first = number == 0
        mark = _ITEM.match(line, start) or _CLAUSE_NUMBER.match(line, start) if first else None
        begin = mark.end() if mark else start
        run_in = _RUN_IN.match(line, begin, end) if first and item else None
        if run_in:
            begin = run_in.end()
        elif first and leaning and not _OWN_SUBJECT.match(line, begin):
            continue
        while begin < end and line[begin] == " ":
            begin += 1
        sentence = line[begin:end]
        if usable(sentence):
            yield Candidate(offset + begin, offset + end, sentence)


def usable(sentence: str) -> bool:
    """Whether a sentence can stand as a claim."""
    return _well_formed(sentence) and _stands_alone(sentence)


def _well_formed(sentence: str) -> bool:
    words = sentence.split()
    if not (_MIN_WORDS <= len(words) <= _MAX_WORDS and _MIN_CHARS <= len(sentence) <= _MAX_CHARS):
        return False
    if not sentence.endswith(".") or not sentence[0].isupper() or lost_text() in sentence or _BAD.search(sentence):
        return False
    if _GLUED.match(sentence) or _ENUMERATED.search(sentence) or _PERSONAL.search(sentence):
        return False
    level = sentence.count("(") == sentence.count(")") and sentence.count("“") == sentence.count("”")
    shouted = sum(word.isupper() and len(word) > 3 for word in words) * 3 > len(words)
    return level and sentence.count('"') % 2 == 0 and not shouted and ";" not in sentence[-40:]


def _stands_alone(sentence: str) -> bool:
    body = sentence[_opening(sentence) :]
    leans = _LEANING.match(body) or _IMPERATIVE.match(body) or _POINTING.search(body[:_POINTING_CHARS])
    return not leans and not _OUTWARD.search(body) and not _DEFINES.search(body) and _FINITE.search(body) is not None


def _opening(sentence: str) -> int:
    """Where the sentence begins once a connective ("However, ") is left out."""
    match = _CONNECTIVE.match(sentence)
    return match.end() if match else 0
