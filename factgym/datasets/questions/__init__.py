"""Factual questions with their gold answers: readers of public benchmarks, and a generated world that needs no data.

Everything gives the same record, `Question`. The generated world comes with a corpus whose sentences state its facts
more or less often, so that counts over it mean something.
"""

from factgym.datasets.questions.benchmarks import AUTO, BENCHMARKS, QuestionFile, question_file, read_questions
from factgym.datasets.questions.question import Question, Questions
from factgym.datasets.questions.slices import QuestionSlice, popularity_quartiles, stratified_questions

__all__ = [
    "AUTO",
    "BENCHMARKS",
    "Question",
    "QuestionFile",
    "QuestionSlice",
    "Questions",
    "popularity_quartiles",
    "question_file",
    "read_questions",
    "stratified_questions",
]
