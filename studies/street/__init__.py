"""The street: PyMC models as people write them, by `amc.sample(model)` and by nutpie, each in a process of its own.

``python -m studies.street`` runs what has no file in the folder yet, one process at a time, and writes ``street.csv``
anew after each. A cell is a model, who samples it, and a state of the machine:

- *ours, new*: the library has run before on this machine, the model is new to it; *ours, again*: the same model again;
- *nutpie*: `nutpie.compile_pymc_model` and `nutpie.sample`, as a user calls them;
- *long*: a long run of nutpie; moments are compared with it, and it decides whether a model is clean (`alarms`).

Seconds are CPU seconds of the whole process, with Python, imports and compilation; wall-clock seconds are given too.
Both sides draw 1000 times in each of four chains; ours continues until R-hat and 400 effective draws pass. Not a
declared study, because a cell of a study leaves out compilation, and here it counts.
"""
