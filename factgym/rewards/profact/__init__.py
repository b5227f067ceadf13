"""ProFact: METEOR, the assignment of AVeriTeC's scorer, and the reward of each stage.

Source: "ProFact", section 3.3. `stages` scores every component once and has the rubrics that combine them; `meteor`
equals NLTK's METEOR, without NLTK and without a download.
"""
