"""The vocabulary of the package: environments, tasks, actions, reports, the registry. No domain knowledge."""
