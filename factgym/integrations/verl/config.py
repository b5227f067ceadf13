"""A Hydra configuration of verl's for an environment, with the flags that bite set right.

What is not said here is verl's own default (`ppo_trainer`); every line can be set again on the command line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from factgym.core.env import Env
from factgym.core.errors import ConfigError, did_you_mean
from factgym.core.registry import spec
from factgym.integrations.credit import FORMS
from factgym.integrations.session import Session, episode_tokens
from factgym.integrations.verl.rows import AGENT

_CHARS_PER_TOKEN = 3
_STEP = 512
_TASKS = 16
_ORACLES = 4
_MOST_CHARS = 1_000_000
"""For verl's own tool loop, which cuts tool text to 256 characters in the middle unless told otherwise."""


def config_text(env_id: str, config: Mapping[str, Any] | None = None, credit: str | None = None) -> str:
    """The configuration as YAML.

    config: settings of the environment, which bound how long its episodes are; the rows carry them. credit: "grpo",
    "hrpo" or "stepwise" for token advantages, "none" for verl's own GRPO; None chooses "stepwise" for CorVer's
    environments, whose paper it is, and "none" elsewhere. Raises what `make` raises, and ConfigError for another credit.
    """
    session = Session(env_id, **(config or {}))
    credit = credit or _own_credit(session)
    if credit not in (*FORMS, "none"):
        known = [*FORMS, "none"]
        raise ConfigError(f"credit is one of {', '.join(known)}, not {credit!r:.40}.{did_you_mean(credit, known)}")
    prompt, response = _lengths(session, env_id, config or {})
    name = spec(env_id).id
    return _TEXT.format(
        env=name,
        versioned=session.env.env_spec.versioned,
        prompt=prompt,
        response=response,
        whole=prompt + response,
        agent=AGENT,
        estimator="grpo" if credit == "none" else f"factgym_{credit}",
        turns=session.env.config.max_turns,
        chars=_MOST_CHARS,
    )


def _own_credit(session: Session) -> str:
    from factgym.envs.corver.env import CorverEnv

    return "stepwise" if isinstance(session.env, CorverEnv) else "none"


def _lengths(session: Session, env_id: str, config: Mapping[str, Any]) -> tuple[int, int]:
    """Bounds on prompt and response, at three characters a token; the oracle goes the shortest way.

    Where contexts are isolated, later prompts hold what was found before.
    """

    def count(text: str) -> int:
        return len(text) // _CHARS_PER_TOKEN

    found = episode_tokens(env_id, count, config, tasks=_TASKS)
    tools = count(json.dumps(session.all_tools()))
    isolated = type(session.env).policy_prompt is not Env.policy_prompt
    prompt = found.prompt + tools + (found.completion if isolated else _STEP)
    return _rounded(prompt), _rounded(max(_ORACLES * found.completion, _ORACLES * _STEP))


def _rounded(tokens: int) -> int:
    return -(-tokens // _STEP) * _STEP


_TEXT = """\
# {versioned} for verl 0.9. Written by `python -m factgym.integrations.verl config {env}`.
# Lengths are estimates from the first tasks, at three characters a token: four times what the oracle needs.
defaults:
  - ppo_trainer
  - _self_

data:
  train_files: {env}-train.parquet
  val_files: {env}-validation.parquet
  # Registers the agent loop and the estimators in every process; its bound on prompts counts the tools.
  custom_cls:
    path: pkg://factgym.integrations.verl
    name: FactDataset
  filter_overlong_prompts: true
  max_prompt_length: {prompt}
  # The whole episode behind the prompt, with all that the tools say.
  max_response_length: {response}
  train_batch_size: 64
  factgym:
    # lambda of factgym_grpo and factgym_hrpo, and the rows' column within which factgym_hrpo compares.
    dense_weight: 0.5
    group_column: hops

actor_rollout_ref:
  model:
    path: Qwen/Qwen3-4B-Instruct-2507
  actor:
    ppo_mini_batch_size: 64
    use_dynamic_bsz: true
    ppo_max_token_len_per_gpu: {whole}
    use_kl_loss: false
    optim:
      lr: 1e-6
  rollout:
    name: vllm
    n: 8
    tensor_model_parallel_size: 1
    max_model_len: {whole}
    agent:
      default_agent_loop: {agent}
      num_workers: 8
    multi_turn:
      enable: true
      format: hermes
      # The environment ends the episode and bounds its own text; these are for verl's own tool loop.
      max_assistant_turns: {turns}
      max_tool_response_length: {chars}

algorithm:
  adv_estimator: {estimator}
  use_kl_in_reward: false

# Rows have their reward when they leave the agent loop.
reward:
  num_workers: 1
  custom_reward_function:
    path: pkg://factgym.integrations.verl
    name: compute_score

trainer:
  use_v1: true
  project_name: factgym
  experiment_name: {env}
  logger: [console]
  nnodes: 1
  n_gpus_per_node: 1
  val_before_train: true
  test_freq: 10
  save_freq: 50
  total_epochs: 1
"""
