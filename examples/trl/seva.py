"""Train a model with GRPO to write structured attribution verdicts, with SEVA's process reward or another one.

    python examples/trl/seva.py --model Qwen/Qwen3-1.7B --env seva

Environments: seva, seva-repair; and, over public files with --path, seva-fever, seva-truthfulqa, seva-halueval,
seva-clearfacts and seva-anli. A verdict may be a call of `submit` or a plain JSON object: both are scored.
"""

import argparse

import torch
from trl import GRPOConfig, GRPOTrainer

from factgym.integrations.trl import StopWhenDone, column_weights, dataset, environment_factory, reward_columns


class Trainer(StopWhenDone, GRPOTrainer):
    """A rollout ends with its episode."""


def main() -> None:
    """Read the arguments, train, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--env", default="seva")
    parser.add_argument("--path", help="the data set's file or folder, for the environments that read one")
    parser.add_argument("--output", default="runs/trl-seva")
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--completion-tokens", type=int, default=2048)
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
