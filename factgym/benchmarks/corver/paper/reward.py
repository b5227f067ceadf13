"""The reward itself: tiers of equation 2 on the counts that the paper traces, and the bounds that follow from section 4."""

from __future__ import annotations

from factgym.benchmarks.formats import decimal
from factgym.benchmarks.papers.table import PaperRow, PaperTable, signed
from factgym.rewards.corver import CorverRules

_TRACED = (
    *(("Case 1", count, reward) for count, reward in ((12_323, 0.1), (16_484, 0.1), (0, -0.3), (12_323, 0.1), (12_323, 0.1))),
    *(("Case 2", count, reward) for count, reward in ((163, 0.1), (389, 0.1), (542, 0.1), (0, -0.3), (3_500, 0.1), (10, 0.0))),
    *(("B.3, first", count, reward) for count, reward in ((50, 0.1),)),
    *(("B.3, min", count, reward) for count, reward in ((0, -0.3),)),
)  # fmt: skip


def tiers() -> PaperTable:
    """Every traced count with its reward."""
    rules = CorverRules()
    rows = [
        PaperRow(
            (case, f"{count:,}", signed(rules.count_reward(count)), signed(theirs)),
            rules.count_reward(count) == theirs,
        )
        for case, count, theirs in _TRACED
    ]
    return PaperTable("B.3, B.6", "Equation 2 on the traced counts", "computed", ("trace", "count", "ours", "theirs"), tuple(rows))  # fmt: skip


def bounds() -> PaperTable:
    """What a completion can earn, channel by channel."""
    rules = CorverRules()
    judge = (min(rules.bad_reward, rules.na_reward), rules.good_reward)
    channels = {
        "judge": judge,
        "format": (-rules.format_reward, rules.format_reward),
        "sentences, mean over tokens": (rules.none_reward, rules.high_reward),
    }
    channels["total"] = (sum(low for low, _ in channels.values()), sum(high for _, high in channels.values()))
    rows = [PaperRow((name, decimal(low, 1), decimal(high, 1))) for name, (low, high) in channels.items()]
    notes = (
        "Section 4 bounds the sentences’ part by 3 sentences × 0.1 = 0.3. Per token it is a mean, not a sum: it lies between −0.3 and +0.1 whatever the number of sentences.",
        "B.1 leaves λ_f out of the return of a completion that falls back; equation 3 has it. With all weights 1 they agree.",
        "By section 3.2 a triplet counts when head and tail are no pronouns, by one sentence of B.1 when they are not both: the first is what is built here.",
        "A penalty of 0.3 against a gain of 0.1: a sentence whose count is 20 or more with less than 75 % chance, and else 0, costs more than it brings. The neutral reward of a sentence without a query makes vagueness the safe choice.",
    )
    return PaperTable(
        "Section 4", "What a completion can earn", "computed", ("channel", "least", "most"), tuple(rows), notes
    )
