"""Train EVE's solver with GRPO, or its proposer with HRPO, which compares proposals of the same number of hops.

    python examples/trl/eve.py --model Qwen/Qwen3-1.7B --env eve-solver
    python examples/trl/eve.py --model Qwen/Qwen3-1.7B --env eve-proposer --solver http://127.0.0.1:8000/v1

Passages with --corpus, the solver's questions with --source and --path; a generated world by default. The proposer's
reward asks a solver, for example the model as it is now behind a server; by default a script answers.
"""

import argparse

import torch
from trl import GRPOConfig, GRPOTrainer

from factgym.integrations.trl import DenseCredit, column_weights, dataset, environment_factory, reward_columns


class Solver(DenseCredit, GRPOTrainer):
    """GRPO with the credit of answer and evidence added to their tokens."""

    credit = "grpo"
    dense_weight = 0.3


class Proposer(DenseCredit, GRPOTrainer):
    """One proposal a document; advantages within the group of its hops."""

    credit = "hrpo"
    dense_weight = 0.0


def main() -> None:
    """Read the arguments, train, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--env", default="eve-solver", choices=["eve-solver", "eve-proposer"])
    parser.add_argument("--corpus", help="a file or folder of passages")
    parser.add_argument("--source", help="of the solver's questions: hotpotqa, triples …")
    parser.add_argument("--path", help="the source's file or folder")
    parser.add_argument("--solver", help="the agent that answers the proposer's questions")
    parser.add_argument("--output", default="runs/trl-eve")
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--completion-tokens", type=int, default=3072, help="of a whole episode, tool text included")
    args = parser.parse_args()

    options = {"corpus": args.corpus, "source": args.source, "path": args.path, "solver": args.solver}
    config = {key: value for key, value in options.items() if value is not None}
    if args.source is None and args.corpus is None:
        config["split"] = "train"
    trainer = (Solver if args.env == "eve-solver" else Proposer)(
        model=args.model,
        args=GRPOConfig(
            output_dir=args.output,
            max_steps=args.steps,
            per_device_train_batch_size=args.group,
            num_generations=args.group if args.env == "eve-solver" else 2,
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
