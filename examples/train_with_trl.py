"""Train a model on an environment with TRL's GRPO trainer and factgym's credit for tokens, in a script to start from.

    python examples/train_with_trl.py --model Qwen/Qwen3-1.7B --env claimcheck-multihop
    python examples/train_with_trl.py --model Qwen/Qwen3-1.7B --env corver-qa --completion-tokens 1024
    python examples/train_with_trl.py --model Qwen/Qwen3-1.7B --env eve-proposer --group 2 --config '{"solver": "http://127.0.0.1:8000/v1"}'

Settings of the environment, data of your own among them, are the JSON object --config. `factgym train` does the same from
a recipe, with supervised tuning, held-out scores and curves.
"""

import argparse
import json

import torch
from trl import GRPOConfig, GRPOTrainer

from factgym.integrations.trl import DenseCredit, column_weights, dataset, environment_factory, reward_columns

CREDIT = {"corver": ("stepwise", 1.0), "eve-solver": ("grpo", 0.3), "eve-proposer": ("hrpo", 0.0)}
"""Credit form and weight of the span credit by the beginning of an id: CorVer's Algorithm 1; EVE's answer and evidence;
EVE's proposals, which are compared within the group of their hops."""


class Trainer(DenseCredit, GRPOTrainer):
    """GRPO with the credit of each span added to its tokens; a rollout ends with its episode."""


def main() -> None:
    """Read the arguments, train, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--env", default="claimcheck-multihop")
    parser.add_argument("--config", type=json.loads, default={}, help="settings of the environment, a JSON object")
    parser.add_argument("--output", default="runs/trl")
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--group", type=int, default=8, help="episodes of each task")
    parser.add_argument("--completion-tokens", type=int, default=4096, help="of a whole episode, tool text included")
    args = parser.parse_args()

    # Shorter tool text leaves more of the budget to the policy; a cut is marked.
    config = {"max_observation_chars": 4000, **args.config}
    match = next((family for family in CREDIT if args.env.startswith(family)), None)
    Trainer.credit, Trainer.dense_weight = CREDIT[match] if match else ("grpo", 0.5)
    trainer = Trainer(
        model=args.model,
        args=GRPOConfig(
            output_dir=args.output,
            max_steps=args.steps,
            per_device_train_batch_size=args.group,
            num_generations=args.group,
            max_completion_length=args.completion_tokens,
            reward_weights=column_weights(args.env, **config),
            learning_rate=1e-6,
            logging_steps=1,
            report_to="none",
            use_cpu=not torch.cuda.is_available(),
            bf16=torch.cuda.is_available(),
        ),
        train_dataset=dataset(args.env, limit=args.tasks, **config),
        environment_factory=environment_factory(args.env, **config),
        reward_funcs=reward_columns(args.env, **config),
    )
    trainer.train()
    trainer.save_model(args.output)


if __name__ == "__main__":
    main()
