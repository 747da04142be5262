"""Text of any family: detokenizing, words, sentences, repetition."""
