"""A race on the clock: exact steps, subsampling with and without each lever, NumPy, and other libraries.

``python -m studies.race --preset smoke|quick|paper|tall [--peers] [--out FOLDER]`` writes race.json, race.csv, race.md.
All rivals sample one posterior of a logistic regression from the same data, in one process; prior precision 10, but in
preset tall, real data with rare categories, that of `tall_target`.
They take turns: a round gives each the same CPU time, and the results are medians over rounds of ratios within a
round, with the smallest and the largest ratio. One estimator of the effective sample size, ArviZ's of the bulk, serves
all. Not a declared study, because cells of a study run apart from each other and here they must interleave.

``--peers`` adds samplers of other libraries, the extra ``foreign``. PyMHSS (0.1.5) is not in it: its target has no
prior, hence it cannot sample this posterior, and it asks for TensorFlow. NUTS is timed without its warm-up and
compilation; set-up of every rival is reported separately. XLA and BLAS get one thread; time is the CPU time of the
process with all its threads.
"""
