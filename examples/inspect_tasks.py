"""Tasks of Inspect, one for each environment: `inspect eval examples/inspect_tasks.py@NAME`.

Written by `python -m factgym.integrations.registers --tasks`, for registers that read the source of a task.
"""

from typing import Any

from inspect_ai import Task, task

from factgym.integrations.inspect import task_of


@task
def claimcheck(**settings: Any) -> Task:
    """Check an answer against policy documents; all generated splits."""
    return task_of("claimcheck")(**settings)


@task
def claimcheck_hard(**settings: Any) -> Task:
    """Subtle overclaims, near numbers and irrelevant citations."""
    return task_of("claimcheck-hard")(**settings)


@task
def claimcheck_mini(**settings: Any) -> Task:
    """Short passages of a small vocabulary: a world in which a small model learns to check."""
    return task_of("claimcheck-mini")(**settings)


@task
def claimcheck_multihop(**settings: Any) -> Task:
    """Five passages, two or more of which decide together."""
    return task_of("claimcheck-multihop")(**settings)


@task
def claimcheck_offline(**settings: Any) -> Task:
    """All evidence in the prompt, one submission."""
    return task_of("claimcheck-offline")(**settings)


@task
def claimcheck_ood(**settings: Any) -> Task:
    """Other kinds of documents in another style."""
    return task_of("claimcheck-ood")(**settings)


@task
def corver_qa(**settings: Any) -> Task:
    """Factual questions, closed book; each sentence is looked up in a corpus (source=… for public files)."""
    return task_of("corver-qa")(**settings)


@task
def corver_qa_search(**settings: Any) -> Task:
    """The same questions with a search tool over the corpus."""
    return task_of("corver-qa-search")(**settings)


@task
def eve_proposer(**settings: Any) -> Task:
    """Questions with their evidence, written for a solver to learn from; the solver is any policy (solver=…)."""
    return task_of("eve-proposer")(**settings)


@task
def eve_solver(**settings: Any) -> Task:
    """Questions of one to four hops answered from a corpus, with the evidence; benchmarks with source=… and path=…."""
    return task_of("eve-solver")(**settings)


@task
def profact(**settings: Any) -> Task:
    """Question, search, verdict on fact-checked claims, with a reward at every stage; over AVeriTeC's files with path=…."""
    return task_of("profact")(**settings)


@task
def profact_noprocess(**settings: Any) -> Task:
    """The same, rewarded for the verdict alone."""
    return task_of("profact-noprocess")(**settings)


@task
def seva(**settings: Any) -> Task:
    """Is a claim attributable to its source? Structured verdicts over generated claims."""
    return task_of("seva")(**settings)


@task
def seva_repair(**settings: Any) -> Task:
    """The same with a draft that is reviewed before the verdict."""
    return task_of("seva-repair")(**settings)


@task
def toy(**settings: Any) -> Task:
    """A dozen passages, true and false claims: a whole environment in one short file, to learn from."""
    return task_of("toy")(**settings)
