"""Text as such: words, stems, sentences, numbers and tags of English, folding, visible text, and the language of a text.

A paper's or an author's own convention is a named variant with its source: the Penn Treebank's tokens as AVeriTeC's scorer
sees them (`treebank`), Porter's stems (`stems`), WordNet's synonyms as METEOR takes them (`wordnet`), CorVer's tagger
(`tagging`).
"""
