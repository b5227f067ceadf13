"""ProFact: question, search and verdict on fact-checked claims."""
