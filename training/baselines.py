"""What a model must beat: the majority class, and TF-IDF with logistic regression."""

from collections import Counter
from collections.abc import Sequence

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

TOKENS = r"(?u)\b\w+\b|[^\w\s]"


def majority(train_labels: Sequence[str], count: int) -> list[str]:
    """The most frequent training label, `count` times; ties go to the first in the alphabet."""
    tally = Counter(train_labels)
    return [min(tally, key=lambda label: (-tally[label], label))] * count


def tfidf(train_texts: Sequence[str], train_labels: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Labels by TF-IDF over words and word pairs and logistic regression; single characters count as words."""
    model = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=TOKENS),
        LogisticRegression(max_iter=1000, C=4.0),
    )
    model.fit(list(train_texts), list(train_labels))
    return [str(label) for label in model.predict(list(texts))]
