"""Real data small enough to be written in a file, named by their publications."""

import numpy as np

# Rubin (1981): coaching in eight schools, effects and their standard errors.
SCHOOLS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
# Efron and Morris (1975): hits of 18 batters in their first 45 times at bat.
HITS = np.array([18, 17, 16, 15, 14, 14, 13, 12, 11, 11, 10, 10, 10, 10, 10, 9, 8, 7])
AT_BAT = 45
# Gaver and O'Muircheartaigh (1987): failures of ten pumps, thousands of hours.
FAILURES = np.array([5, 1, 5, 14, 3, 19, 1, 1, 4, 22])
HOURS = np.array([94.32, 15.72, 62.88, 125.76, 5.24, 31.44, 1.048, 1.048, 2.096, 10.48])
# Spiegelhalter and others (1996): deaths after heart surgery on babies in twelve hospitals.
DEATHS = np.array([0, 18, 8, 46, 8, 13, 9, 31, 14, 8, 29, 24])
OPERATIONS = np.array([47, 148, 119, 810, 211, 196, 148, 215, 207, 97, 256, 360])
# Crowder (1978): seeds that germinated on 21 plates, by kind of seed and of root extract.
GERMINATED = np.array([10, 23, 23, 26, 17, 5, 53, 55, 32, 46, 10, 8, 10, 8, 23, 0, 3, 22, 15, 32, 3])
SEEDS = np.array([39, 62, 81, 51, 39, 6, 74, 72, 51, 79, 13, 16, 30, 28, 45, 4, 12, 41, 30, 51, 7])
KIND_OF_SEED = np.repeat([0, 1], [11, 10])
EXTRACT = np.repeat([0, 1, 0, 1], [5, 6, 5, 5])
# Gelfand and others (1990): weights of rats at five ages; the first twelve of thirty.
AGES = np.array([8.0, 15, 22, 29, 36])
RATS = np.array([
    [151, 199, 246, 283, 320], [145, 199, 249, 293, 354], [147, 214, 263, 312, 328], [155, 200, 237, 272, 297],
    [135, 188, 230, 280, 323], [159, 210, 252, 298, 331], [141, 189, 231, 275, 305], [159, 201, 248, 297, 338],
    [177, 236, 285, 350, 376], [134, 182, 220, 260, 296], [160, 208, 261, 313, 352], [143, 188, 220, 273, 314],
])  # fmt: skip
# Jarrett (1979): coal mining disasters a year, 1851 to 1961.
DISASTERS = np.array([
    4, 5, 4, 0, 1, 4, 3, 4, 0, 6, 3, 3, 4, 0, 2, 6, 3, 3, 5, 4, 5, 3, 1, 4, 4, 1, 5, 5, 3, 4, 2, 5, 2, 2, 3, 4, 2, 1,
    3, 2, 2, 1, 1, 1, 1, 3, 0, 0, 1, 0, 1, 1, 0, 0, 3, 1, 0, 3, 2, 2, 0, 1, 1, 1, 0, 1, 0, 1, 0, 0, 0, 2, 1, 0, 0, 0,
    1, 1, 0, 2, 3, 3, 1, 1, 2, 1, 1, 1, 1, 2, 4, 2, 0, 0, 1, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1,
])  # fmt: skip
# Elton and Nicholson (1942): lynx trapped a year, 1821 to 1934.
LYNX = np.array([
    269, 321, 585, 871, 1475, 2821, 3928, 5943, 4950, 2577, 523, 98, 184, 279, 409, 2285, 2685, 3409, 1824, 409, 151,
    45, 68, 213, 546, 1033, 2129, 2536, 957, 361, 377, 225, 360, 731, 1638, 2725, 2871, 2119, 684, 299, 236, 245, 552,
    1623, 3311, 6721, 4254, 687, 255, 473, 358, 784, 1594, 1676, 2251, 1426, 756, 299, 201, 229, 469, 736, 2042, 2811,
    4431, 2511, 389, 73, 39, 49, 59, 188, 377, 1292, 4031, 3495, 587, 105, 153, 387, 758, 1307, 3465, 6991, 6313, 3794,
    1836, 345, 382, 808, 1388, 2713, 3800, 3091, 2985, 3790, 374, 81, 80, 108, 229, 399, 1132, 2432, 3574, 2935, 1537,
    529, 485, 662, 1000, 1590, 2657, 3396,
])  # fmt: skip
