"""A small bilingual story generator: the text of the embedded corpus.

`story` draws what happens (language-neutral), `english` and `chinese` say it, `draw` makes every
random choice and adds up its code length, `words` and `themes` hold the lexicon.
"""
