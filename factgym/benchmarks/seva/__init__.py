"""The SEVA paper's tables and figures that need no trained model, ours beside theirs."""
