"""Factual questions with their gold answers: readers of public benchmarks, and a generated world that needs no data.

Everything gives the same record, `Question`. The generated world comes with a corpus whose sentences state its facts
more or less often, so that counts over it mean something.
"""

from factgym.corpora.questions.benchmarks import AUTO, BENCHMARKS, QuestionFile, question_file, read_questions
from factgym.corpora.questions.generated import SPLITS, GeneratedQuestions
from factgym.corpora.questions.question import Question, Questions
from factgym.corpora.questions.slices import QuestionSlice, popularity_quartiles, stratified_questions
from factgym.corpora.questions.world import TIERS, World, question_world

__all__ = [
    "AUTO",
    "BENCHMARKS",
    "SPLITS",
    "TIERS",
    "GeneratedQuestions",
    "Question",
    "QuestionFile",
    "QuestionSlice",
    "Questions",
    "World",
    "popularity_quartiles",
    "question_file",
    "question_world",
    "read_questions",
    "stratified_questions",
]
