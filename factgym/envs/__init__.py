"""The environment families. This module holds their one list; importing it imports none of them.

To add an environment: a file here, `toy.py` is the shortest example, and a `register` call below.
"""

from factgym.core.registry import register

_CLAIMCHECK = "factgym.envs.claimcheck.env:ClaimCheckEnv"
_AGENTS = "factgym.envs.claimcheck.agents:AGENTS"
_SOURCE = frozenset({"source"})


def _claimcheck(id: str, summary: str, **kwargs: object) -> None:
    register(id, _CLAIMCHECK, summary, kwargs=kwargs, fixed=_SOURCE, agents=_AGENTS)


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

_SEVA = "factgym.envs.seva.env:SevaEnv"
_SEVA_AGENTS = "factgym.envs.seva.agents:AGENTS"


def _seva(id: str, summary: str, **kwargs: object) -> None:
    register(id, _SEVA, summary, kwargs=kwargs, fixed=_SOURCE, agents=_SEVA_AGENTS)


_seva("seva", "Is a claim attributable to its source? Structured verdicts over generated claims.", source="synthetic")
_seva(
    "seva-repair",
    "The same with a draft that is reviewed before the verdict.",
    source="synthetic",
    repair=True,
    max_turns=2,
)
_seva("seva-fever", "Attribution of FEVER claims to Wikipedia sentences (path=…).", source="fever")
_seva("seva-truthfulqa", "Attribution of TruthfulQA's answers (path=…).", source="truthfulqa")
_seva("seva-halueval", "Attribution of right and hallucinated answers of HaluEval (path=…).", source="halueval")
_seva("seva-clearfacts", "Attribution of ClearFacts and GrayFacts statements (path=…).", source="clearfacts")
_seva("seva-anli", "Attribution of ANLI hypotheses to their premises (path=…).", source="anli")

_PROFACT = "factgym.envs.profact.env:ProFactEnv"
_PROFACT_AGENTS = "factgym.envs.profact.agents:AGENTS"

register(
    "profact",
    _PROFACT,
    "Question, search, verdict on fact-checked claims, with a reward at every stage; over AVeriTeC's files with path=….",
    agents=_PROFACT_AGENTS,
)
register(
    "profact-noprocess",
    _PROFACT,
    "The same, rewarded for the verdict alone.",
    kwargs={"reward": "noprocess"},
    fixed=frozenset({"reward"}),
    agents=_PROFACT_AGENTS,
)

_CORVER = "factgym.envs.corver.env:CorverEnv"
_CORVER_AGENTS = "factgym.envs.corver.agents:AGENTS"
_CORVER_SEARCH_AGENTS = "factgym.envs.corver.agents:SEARCH_AGENTS"
_SEARCH = frozenset({"search"})

register(
    "corver-qa",
    _CORVER,
    "Factual questions, closed book; each sentence is looked up in a corpus (source=… for public files).",
    fixed=_SEARCH,
    agents=_CORVER_AGENTS,
)
register(
    "corver-qa-search",
    _CORVER,
    "The same questions with a search tool over the corpus.",
    kwargs={"search": True, "max_turns": 8},
    fixed=_SEARCH,
    agents=_CORVER_SEARCH_AGENTS,
)

register(
    "eve-solver",
    "factgym.envs.eve.solver:EveSolverEnv",
    "Questions of one to four hops answered from a corpus, with the evidence; benchmarks with source=… and path=….",
    agents="factgym.envs.eve.solver_agents:SOLVER_AGENTS",
)
register(
    "eve-proposer",
    "factgym.envs.eve.proposer:EveProposerEnv",
    "Questions with their evidence, written for a solver to learn from; the solver is any policy (solver=…).",
    agents="factgym.envs.eve.proposer_agents:PROPOSER_AGENTS",
)

register(
    "toy",
    "factgym.envs.toy:ToyEnv",
    "A dozen passages, true and false claims: a whole environment in one short file, to learn from.",
    agents="factgym.envs.toy:AGENTS",
)
