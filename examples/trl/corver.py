"""Train a model with CorVer's stepwise GRPO to answer questions: every sentence has a return of its own.

    python examples/trl/corver.py --model Qwen/Qwen3-1.7B --env corver-qa

Environments: corver-qa, a closed book without tools, and corver-qa-search. Public question files with --source and
--path, and a corpus to count in with --counter; without one there is no sentence term.
"""

import argparse

import torch
from trl import GRPOConfig, GRPOTrainer

from factgym.integrations.trl import DenseCredit, column_weights, dataset, environment_factory, reward_columns


class Trainer(DenseCredit, GRPOTrainer):
    """Advantages of tokens as CorVer's Algorithm 1 has them."""

    credit = "stepwise"


def main() -> None:
    """Read the arguments, train, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--env", default="corver-qa")
    parser.add_argument("--source", help="nq-open, popqa, file …; generated questions by default")
    parser.add_argument("--path", help="the source's file or folder")
    parser.add_argument("--counter", help="an index of co-occurrences")
    parser.add_argument("--output", default="runs/trl-corver")
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--completion-tokens", type=int, default=1024)
    args = parser.parse_args()

    options = {"source": args.source, "path": args.path, "counter": args.counter}
    config = {"split": "train"} if args.source is None else {k: v for k, v in options.items() if v is not None}
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
