"""A race on the clock: exact steps, subsampling with and without each lever, NumPy, and other libraries.

``python -m studies.race --preset smoke|quick|paper|tall [--peers] [--out FOLDER]`` writes race.json, race.csv, race.md.
All rivals sample one posterior of a logistic regression from the same data, in one process. Prior precision is 10,
except in preset tall (real data with the prior of `tall_target`, and one dense set, with precision 1). They take turns:
a round gives each about the same CPU time (NUTS: the same number of draws), and the results are medians over rounds of
ratios within a round, with the smallest and the largest ratio. Effective sample sizes of all rivals are ArviZ's bulk
sizes. The race is not a declared study, because the cells of a study run one after the other and here the rivals must
interleave.

``--peers`` adds samplers of other libraries, the extra ``foreign``. PyMHSS (0.1.5) does not take part: its target has
no prior, hence it cannot sample this posterior, and it needs TensorFlow. NUTS is timed without its warm-up and
compilation; set-up of every rival is reported separately. XLA and BLAS have one thread; time is the CPU time of the
process with all its threads.
"""
