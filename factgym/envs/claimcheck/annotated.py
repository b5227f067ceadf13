"""ClaimCheck over public benchmarks whose annotators marked the evidence: WiCE, Fool Me Twice, SciFact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Literal

from factgym.core.config import EnvConfig
from factgym.core.episode import RewardReport
from factgym.envs.claimcheck.env import ClaimCheckEnv
from factgym.envs.claimcheck.tasks import ClaimCheckConfig, ClaimTask
from factgym.rewards.claimcheck.gold import gold_of
from factgym.rewards.claimcheck.scoring import JUDGED_WITHOUT_SPANS, RUBRICS, score_submission
from factgym.rewards.rubric import Rubric


class AnnotatedConfig(ClaimCheckConfig):
    """Settings of the environments over annotated benchmarks: those of `claimcheck`.

    balance: no status has more tasks than the second most frequent one, so that a constant status earns less; False for
    all tasks.
    """

    source: Literal["wice", "fm2", "scifact"] = "wice"

    @property
    def rubric(self) -> Rubric:
        return JUDGED_WITHOUT_SPANS if self.reward == "judged" else super().rubric


class AnnotatedClaimCheckEnv(ClaimCheckEnv):
    """Check a claim that people checked, against the document that they marked.

    ## Description
    ClaimCheck with its tools, verdicts and rewards over claims of others: sentences of Wikipedia and the web pages that
    they cite (WiCE, Kamoi et al. 2023), claims that players wrote to deceive (Fool Me Twice, Eisenschlos et al. 2021), and
    claims on biomedical abstracts (SciFact, Wadden et al. 2020). Labels and evidence are the annotators' own.

    ## Task
    One statement, and a document to search: the cited page, the sentences that were retrieved from the claim's Wikipedia
    page, or the cited abstracts. WiCE's partially supported sentences are overclaims (the page says less), not supported
    ones unsupported; Fool Me Twice has supported and contradicted claims; SciFact's claims without evidence are
    unsupported. With `haystack=True` the documents of the whole split are searched.

    ## Tools
    `list`, `search`, `read`, `submit`, as in `claimcheck`.

    ## Turn protocol
    At most `max_turns` actions; `submit` ends the episode. An invalid action costs a turn and is answered with an error.
    Without a submission the reward is 0.

    ## Rewards
    Those of `claimcheck`. "judged", the default, has other odds here, since a data set has two or three statuses, and no
    marked parts, since no annotator marked any: .05 for the form, .15 for the share of evidence, .40 for the status, .35
    for the final verdict, .05 for a reason of a right status. With p the part of a status in all that can be earned over
    the data set, a right one earns min(1, (1 - p) / p) of the share and a wrong one costs min(1, p / (1 - p)) of it, so
    that every constant and every prior earns nothing beside the evidence: with two statuses that are equally frequent, a
    wrong one costs what a right one earns. The instructions give the numbers. Where annotators marked several sets of
    sentences, of which each suffices, a submission is scored against the set that its evidence comes nearest. Evidence of
    silence counts a third and takes up to three of the nearest passages, as over ContractNLI.

    ## Splits and licences
    The data are no part of the package. WiCE (annotations ODC-BY 1.0) and Fool Me Twice (Apache-2.0; Wikipedia CC BY-SA):
    `dev`, for evaluation only. SciFact (claims CC BY 4.0, abstracts ODC-By 1.0): `validation` (default) and `train`. By
    default no status has more tasks than the second most frequent one: 273 of 349 in WiCE, 1,146 of 1,169, 288 of 300 and
    781 of 809; all with `balance=False`. As published, SciFact's splits share two claims and 181 abstracts.

    ## Determinism
    The order of the tasks depends on `seed` alone. The same actions give the same bytes and the same reward.

    ## Known exploits
    Those of `claimcheck`, which `factgym audit` runs. The honest baseline, `human-labels`, is a linear classifier of
    eleven features of words, numbers and denials, fitted to SciFact's train split and to Factcheck-GPT's claims, so
    that nothing is fitted to what is evaluated: of two statuses of Fool Me Twice it tells .57 right on average (400
    claims, chance .50), of three of WiCE .55 (.33). WiCE: over all tasks the best constant stays .130 [.047, .213]
    below it; of the search's best the label by overlap is not shown to stay below it (.061 [-.006, .129]). SciFact
    passes the exploiters, by .049 [.030, .068], and the search, by .095 [.049, .140] over 288 claims. Fool Me Twice
    fails: claims that were written to deceive are nearly unreadable by words. Over all 1,146 tasks the baseline earns
    .108, "contradicted" .047 [.021, .073] less and "supported" .010 [-.011, .030] less, and a classifier of the claim's
    words .024 [-.001, .049] more over 573. There the exploiter that is given the gold label earns .19, since a passage
    is one sentence, so that its quote is the first hit.

    ## Versions
    v2: untrusted text between tags that end in a code of the task; the same rewards. v1: first version.
    """

    Config: ClassVar[type[EnvConfig]] = AnnotatedConfig
    strategies: ClassVar[str | None] = "factgym.envs.claimcheck.strategies:ANNOTATED_STRATEGIES"
    presets: ClassVar[Mapping[str, Any]] = {**RUBRICS, "judged": JUDGED_WITHOUT_SPANS}
    config: AnnotatedConfig

    @property
    def _system_prompts(self) -> tuple[str, ...]:
        names = ["judged_annotated" if name == "judged" else name for name in super()._system_prompts]
        more = {"wice": ("parts",), "scifact": ("sets",)}
        return (*names, *more.get(self.config.source, ()))

    @cached_property
    def _system_text(self) -> str:
        stakes = self.tasks.stakes
        lines = [f"{label} {gain:+.2f} or {loss:+.2f}" for label, (gain, loss) in stakes.labels.items()]
        return super()._system_text.replace("{stakes}", f"{', '.join(lines)}, any other {stakes.status[1]:+.2f}")

    @property
    def reward_bounds(self) -> tuple[float, float]:
        """Over good evidence a wrong label may cost more than the evidence earns."""
        weights, lowest = self.config.rubric.weights, self.tasks.stakes.lowest
        judged = lowest * (weights.get("statements", 0.0) + weights.get("judgement", 0.0)) + weights.get(
            "grounding", 0.0
        )
        return min(0.0, weights.get("json", 0.0) + judged), 1.0

    def score(self) -> RewardReport:
        self.episode.task = self._nearest_set(self.task)
        return super().score()

    def _nearest_set(self, task: ClaimTask) -> ClaimTask:
        """Return the task with the sufficient set of facts for which the submission's evidence earns most."""
        submission, example = self.state.submission, task.example
        if submission is None or not example.alternatives:
            return task
        read_ids = list(self.state.read)
        (claim,) = example.claims
        tasks = [task]
        for facts in example.alternatives:
            changed = replace(example, claims=(replace(claim, facts=facts),))
            tasks.append(replace(task, example=changed, gold=gold_of(changed)))

        def grounding(candidate: ClaimTask) -> Any:
            rules = self.config.scoring_rules
            return score_submission(submission, candidate.gold, task.text_of, read_ids, rules).gates["grounding"]

        return max(tasks, key=grounding)
