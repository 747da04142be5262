"""Sentences of a closed vocabulary: enough to be heard apart, few enough to be learnt quickly."""

from random import Random

WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
    "red", "green", "blue", "yellow", "black", "white", "big", "little", "old", "new",
    "house", "river", "garden", "window", "mountain", "boat", "horse", "dog", "bird", "apple",
    "open", "close", "carry", "find", "paint", "follow", "watch", "the", "my", "every",
    "and", "under", "behind", "today", "tomorrow", "never",
)  # fmt: skip
LONGEST = 9  # words of a sentence


def sentence(random: Random) -> str:
    """One to nine words, as they come, and a full stop. Any word may be said twice in a row."""
    count = random.randint(1, LONGEST)
    return " ".join(random.choice(WORDS) for _ in range(count)) + "."
