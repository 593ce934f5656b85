"""The street: PyMC models as people write them, sampled by `amc.sample(model)` and by nutpie.

``python -m studies.street`` runs each cell that has no file in the folder yet, one process at a time, and rewrites
``street.csv`` after each. A cell is a model, a sampler, and a state of the machine:

- *ours, new*: the library has run before on this machine, but not on this model; *ours, again*: the same model again;
- *nutpie*: `nutpie.compile_pymc_model` and `nutpie.sample`, as a user calls them;
- *long*: a long run of nutpie; moments are compared with it, and it decides whether a model is clean (`alarms`).

Seconds are CPU seconds of the whole process, with Python, imports and compilation; wall-clock seconds are given too.
Ours and nutpie draw 1000 times in each of four chains; ours continues until R-hat and 400 effective draws pass. The
street is not a declared study, because cells of a study exclude compilation from their time, and here it is included.
"""
