"""The NLI-style verifier and the text features that scripted agents of all families share."""
