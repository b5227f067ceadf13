"""The environment families. This module holds their one list; importing it imports none of them.

To add an environment: a folder here, and a `register` call below.
"""

from factgym.core.registry import register

_CLAIMCHECK = "factgym.envs.claimcheck.env:ClaimCheckEnv"
_PLAYERS = "factgym.envs.claimcheck.players:PLAYERS"
_SOURCE = frozenset({"source"})


def _claimcheck(id: str, summary: str, **kwargs: object) -> None:
    register(id, _CLAIMCHECK, summary, kwargs=kwargs, fixed=_SOURCE, players=_PLAYERS)


_claimcheck("claimcheck", "Check an answer against policy documents; all generated splits.", source="mixed")
_claimcheck("claimcheck-hard", "Subtle overclaims, near numbers and irrelevant citations.", source="hard")
_claimcheck("claimcheck-ood", "Other kinds of documents in another style.", source="ood")
_claimcheck("claimcheck-multihop", "Five passages, two or more of which decide together.", source="multihop")
_claimcheck(
    "claimcheck-offline", "All evidence in the prompt, one submission.", source="mixed", offline=True, max_turns=1
)
_claimcheck("claimcheck-docs", "Corrupted claims over a folder of your own documents (path=…).", source="docs")
_claimcheck(
    "claimcheck-contracts", "ContractNLI's human labels and evidence spans (path=…).", source="contracts", max_turns=16
)
