"""Train a model with GRPO to question, search and judge claims, with ProFact's stage rewards on the stages' tokens.

    python examples/trl/profact.py --model Qwen/Qwen3-1.7B --env profact

Environments: profact, profact-noprocess; over AVeriTeC's files with --path. ProFact shows its policy one stage at a
time. TRL's rollouts only append, so that here the policy sees the whole transcript; the integration warns of it.
"""

import argparse

import torch
from trl import GRPOConfig, GRPOTrainer

from factgym.integrations.trl import DenseCredit, column_weights, dataset, environment_factory, reward_columns


class Trainer(DenseCredit, GRPOTrainer):
    """GRPO with the credit of each stage added to its tokens; a rollout ends with its episode."""

    credit = "grpo"
    dense_weight = 0.5


def main() -> None:
    """Read the arguments, train, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--env", default="profact")
    parser.add_argument("--path", help="AVeriTeC's file or folder")
    parser.add_argument("--output", default="runs/trl-profact")
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--completion-tokens", type=int, default=4096, help="of a whole episode, tool text included")
    args = parser.parse_args()

    config = {"path": args.path} if args.path else {"split": "train"}
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
