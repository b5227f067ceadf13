"""The cards of the overview that say what a run took, and what its groups of samples look like."""

from __future__ import annotations

from factgym.benchmarks.formats import decimal, interval, whole, whole_interval
from factgym.benchmarks.groups import GroupSummary
from factgym.benchmarks.page import escape as text
from factgym.benchmarks.usage import TOKEN_KINDS, UsageSummary
from factgym.benchmarks.usage_table import effort, measures, sizes
from factgym.benchmarks.viewer import charts

_KIND_WORDS = {
    "prompt_tokens": ("prompt", ""),
    "cached_tokens": ("of these cached", "part"),
    "completion_tokens": ("completion", ""),
    "reasoning_tokens": ("of these reasoning", "part"),
}


def fact(name: str, value: str, kind: str = "num") -> str:
    """One line of a list of facts."""
    return f'<div><dt>{text(name, 80)}</dt><dd class="{kind}">{text(value)}</dd></div>'


def usage_card(usage: UsageSummary | None) -> str:
    """Tokens by kind beside requests, time and money; nothing without usage."""
    if usage is None:
        return ""
    facts = "".join(fact(name, value) for name, value in effort(usage))
    columns = [_tokens(usage) if usage.tokens else "", f'<dl class="facts">{facts}</dl>' if facts else ""]
    filled = [one for one in columns if one]
    kind = "spent" if len(filled) > 1 else "spent one"
    return f'<section class="card"><h2>What it took</h2><div class="{kind}">{"".join(filled)}</div></section>'


def _tokens(usage: UsageSummary) -> str:
    rows = []
    for kind in TOKEN_KINDS:
        if (found := usage.tokens.get(kind)) is None:
            continue
        name, part = _KIND_WORDS[kind]
        rows.append(
            f'<tr class="{part}"><th scope="row">{name}</th>'
            f'<td class="num">{whole(found.per_episode.value)}</td>'
            f'<td class="num muted hide-s">{text(whole_interval(found.per_episode))}</td>'
            f'<td class="num">{whole(found.total)}</td></tr>'
        )
    return (
        '<div class="scroll"><table class="scores tokens"><thead><tr><th scope="col">tokens</th>'
        '<th scope="col" class="right">per episode</th><th scope="col" class="hide-s">95 % interval</th>'
        f'<th scope="col">all episodes</th></tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    )


def groups_card(groups: GroupSummary | None) -> str:
    """The measures of the groups as bars; nothing without groups."""
    if groups is None:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{text(name)}{" <small>lower is better</small>" if bad else ""}</th>'
        f'<td class="wide">{charts.bar(found, "bad" if bad else "")}</td><td class="num">{decimal(found.value)}</td>'
        f'<td class="num muted hide-s">{text(interval(found))}</td></tr>'
        for name, found, bad in measures(groups)
    )
    heads = (
        '<th scope="col">measure</th><th scope="col"><span class="sr">bar</span></th><th scope="col">value</th>'
        '<th scope="col" class="hide-s">95 % interval</th>'
    )
    return (
        f'<section class="card"><h2>Groups: {text(sizes(groups))}</h2><div class="scroll">'
        f'<table class="scores"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
        '<p class="fine">A group whose rewards are all equal teaches nothing under GRPO. '
        '<a href="#sort=task">Episodes by task</a> &middot; <a href="#sort=spread">widest groups first</a></p></section>'
    )
