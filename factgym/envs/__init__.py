"""The environment families. This module holds their one list; importing it imports none of them.

To add an environment: a file here, `toy.py` is the shortest example, and an entry below.
"""

from factgym.core.registry import register

_VERSION = 2
"""Of all environments: the delimiters around untrusted text, and with them every observation, changed together."""


def _register(entry_point: str, agents: str, fixed: str, *entries: tuple[str, str, dict[str, object]]) -> None:
    """Register the environments of a class. fixed: settings that callers cannot override. entries: id, summary, settings."""
    for name, summary, settings in entries:
        register(
            name,
            f"factgym.envs.{entry_point}",
            summary,
            version=_VERSION,
            kwargs=settings,
            fixed=frozenset(fixed.split()),
            agents=f"factgym.envs.{agents}",
        )


_register(
    "claimcheck.env:ClaimCheckEnv", "claimcheck.agents:AGENTS", "source",
    ("claimcheck", "Check an answer against policy documents; all generated splits.", {"source": "mixed"}),
    ("claimcheck-hard", "Subtle overclaims, near numbers and irrelevant citations.", {"source": "hard"}),
    ("claimcheck-ood", "Other kinds of documents in another style.", {"source": "ood"}),
    ("claimcheck-multihop", "Five passages, two or more of which decide together.", {"source": "multihop"}),
    ("claimcheck-offline", "All evidence in the prompt, one submission.",
     {"source": "mixed", "offline": True, "max_turns": 1}),
    ("claimcheck-docs", "Corrupted claims over a folder of your own documents (path=…).", {"source": "docs"}),
    ("claimcheck-contracts", "ContractNLI's human labels and evidence spans (path=…).",
     {"source": "contracts", "max_turns": 16}),
)  # fmt: skip
_register(
    "claimcheck.annotated:AnnotatedClaimCheckEnv", "claimcheck.agents:ANNOTATED_AGENTS", "source",
    ("claimcheck-wice", "WiCE's sentences of Wikipedia against the pages that they cite (path=…).",
     {"source": "wice", "max_turns": 16}),
    ("claimcheck-fm2", "Fool Me Twice's claims, written to deceive, against Wikipedia sentences (path=…).",
     {"source": "fm2", "max_turns": 16}),
    ("claimcheck-scifact", "SciFact's claims against biomedical abstracts, with rationales (path=…).",
     {"source": "scifact", "max_turns": 16}),
)  # fmt: skip
_register(
    "claimcheck.mini:ClaimCheckMiniEnv", "claimcheck.agents:MINI_AGENTS", "source",
    ("claimcheck-mini", "Short passages of a small vocabulary: a world in which a small model learns to check.",
     {"source": "mini", "prompt": "brief", "max_turns": 6}),
)  # fmt: skip
_register(
    "seva.env:SevaEnv", "seva.agents:AGENTS", "source",
    ("seva", "Is a claim attributable to its source? Structured verdicts over generated claims.", {"source": "synthetic"}),
    ("seva-repair", "The same with a draft that is reviewed before the verdict.",
     {"source": "synthetic", "repair": True, "max_turns": 2}),
)  # fmt: skip
_register(
    "seva.env:SevaEnv", "seva.fitted:FILE_AGENTS", "source",
    ("seva-fever", "Attribution of FEVER claims to Wikipedia sentences (path=…).", {"source": "fever"}),
    ("seva-truthfulqa", "Attribution of TruthfulQA's answers (path=…).", {"source": "truthfulqa"}),
    ("seva-halueval", "Attribution of right and hallucinated answers of HaluEval (path=…).", {"source": "halueval"}),
    ("seva-clearfacts", "Attribution of ClearFacts and GrayFacts statements (path=…).", {"source": "clearfacts"}),
    ("seva-anli", "Attribution of ANLI hypotheses to their premises (path=…).", {"source": "anli"}),
)  # fmt: skip
_PROFACT = ("profact.env:ProFactEnv", "profact.agents:AGENTS")
_register(
    *_PROFACT, "",
    ("profact", "Question, search, verdict on fact-checked claims, with a reward at every stage; over AVeriTeC's files with "
     "path=….", {}),
)  # fmt: skip
_register(
    *_PROFACT, "reward", ("profact-noprocess", "The same, rewarded for the verdict alone.", {"reward": "noprocess"})
)
_register(
    "corver.env:CorverEnv", "corver.agents:AGENTS", "search",
    ("corver-qa", "Factual questions, closed book; each sentence is looked up in a corpus (source=… for public files).", {}),
)  # fmt: skip
_register(
    "corver.env:CorverEnv", "corver.agents:SEARCH_AGENTS", "search",
    ("corver-qa-search", "The same questions with a search tool over the corpus.", {"search": True, "max_turns": 8}),
)  # fmt: skip
_register(
    "eve.solver:EveSolverEnv", "eve.solver_agents:SOLVER_AGENTS", "",
    ("eve-solver", "Questions of one to four hops answered from a corpus, with the evidence; benchmarks with source=… and "
     "path=….", {}),
)  # fmt: skip
_register(
    "eve.proposer:EveProposerEnv", "eve.proposer_agents:PROPOSER_AGENTS", "",
    ("eve-proposer", "Questions with their evidence, written for a solver to learn from; the solver is any policy "
     "(solver=…).", {}),
)  # fmt: skip
_register(
    "toy:ToyEnv", "toy:AGENTS", "",
    ("toy", "A dozen passages, true and false claims: a whole environment in one short file, to learn from.", {}),
)  # fmt: skip
