"""Statistics of the judge, with the standard library only.

`distributions` has quantiles and tail probabilities, `intervals` what is said about a mean, a
trend or a ratio under autocorrelation, `bootstrap` resampling. All functions are pure.
"""
