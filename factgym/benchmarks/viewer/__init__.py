"""The HTML page of a run: one file, no network, every text escaped or written as a text node, styles and script by hash."""
