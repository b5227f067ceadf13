"""The HTML page of a run: one file, no network, safe with hostile text.

`page.write_page` streams a run into a page that opens from disk. The overview is plain HTML; the episodes are JSON data
blocks that a small script shows one at a time, so that some thousand of them open at once. Every text comes from a
document or a model: it reaches the page escaped, and the script writes it as text nodes only. A strict content security
policy names the style sheet and the script by hash.
"""
