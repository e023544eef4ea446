#!/usr/bin/env python3
"""What an hour's counters could tell of stragglers at most (docs/stragglers.md).

  FLOPWATCH_TEST_RANKS=ranks.csv FLOPWATCH_TEST_HOURS=4 FLOPWATCH_TEST_FIRST_SEED=21001 \\
    FLOPWATCH_TEST_SEEDS=50 build/release/bin/simulate_test --gtest_filter='Stragglers.OfPl*'
  stragglers_bound.py ranks.csv        (needs numpy and scikit-learn)

Gradient-boosted trees learn from the truth of the fleets with even seeds which ranks are slow, and
name those of the odd ones that they are surest of, as many as leave one in a hundred names wrong.
What they find stands beside what flopwatch named on the same ranks. No fleet has such a truth: this
is no detector, but what one can hope for.
"""
import collections
import sys

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

INNOCENT, SLOW, LEAST_WORK, WRONG = 1.03, 1.05, 600, 0.01
# Columns: seed, preset, hour, job, gpu, host, kind, size, factor, named, hosts, GPUs of the host,
# seconds of work, then for each figure the difference to the job's middle, the job's scatter, and
# the figure.
FIGURES = 13
TENSOR, CLOCK, POWER, SM, DUTY = 0, 1, 2, 5, 6


def mean_of_groups(keys, x):
    _, group = np.unique(keys, return_inverse=True)
    known = ~np.isnan(x)
    n = np.bincount(group, weights=known)
    total = np.bincount(group, weights=np.where(known, x, 0))
    return np.where(n > 0, total / np.maximum(n, 1), np.nan)[group]


def main():
    rows = [line.rstrip("\n").split(",") for line in open(sys.argv[1])]
    x = np.array([row[10:] for row in rows], dtype=float)
    seed, factor = (np.array([float(row[k]) for row in rows]) for k in (0, 8))
    named = np.array([row[9] != "" for row in rows])
    jobs = ["/".join(row[:4]) for row in rows]
    hosts = [f"{job}/{row[5]}" for job, row in zip(jobs, rows)]
    away = x[:, FIGURES - 10::3]
    scatter = x[:, FIGURES - 9::3]
    _, of_job, ranks = np.unique(jobs, return_inverse=True, return_counts=True)
    more = [ranks[of_job]] + [mean_of_groups(hosts, away[:, f])
                              for f in (TENSOR, CLOCK, POWER, SM, DUTY)]
    x = np.column_stack([x, away / np.maximum(1.4826 * scatter, 1e-3), *more])
    x = x[:, [len(np.unique(c[~np.isnan(c)])) > 1 for c in x.T]]
    train, test = seed % 2 == 0, seed % 2 == 1
    slow = factor >= INNOCENT
    trees = HistGradientBoostingClassifier(max_iter=400, learning_rate=0.06, max_leaf_nodes=31,
                                           min_samples_leaf=60, l2_regularization=1.0,
                                           random_state=1)
    trees.fit(x[train], slow[train])
    sure = trees.predict_proba(x[test])[:, 1]
    order = np.argsort(-sure)
    wrong = np.cumsum(~slow[test][order]) / np.arange(1, len(order) + 1)
    names = int(np.nonzero(wrong <= WRONG)[0][-1]) + 1
    by_trees = np.zeros(len(rows), dtype=bool)
    by_trees[np.nonzero(test)[0][order[:names]]] = True
    # A host that is late is one name, and as slow as its slowest GPU.
    slowest, given = collections.defaultdict(float), {}
    for host, row in zip(hosts, rows):
        slowest[host] = max(slowest[host], float(row[8]))
    for k in np.nonzero(named & test)[0]:
        is_host = rows[k][9] == "host"
        given[hosts[k] if is_host else k] = slowest[hosts[k]] if is_host else factor[k]
    print(f"{x.shape[1]} figures; names of GPUs less than {INNOCENT - 1:.0%} slower: trees "
          f"{int((by_trees & ~slow).sum())} of {names}, flopwatch "
          f"{sum(f < INNOCENT for f in given.values())} of {len(given)}")
    found = collections.defaultdict(lambda: [False, False])
    for k in np.nonzero(test)[0]:
        row = rows[k]
        kind = row[6]
        if kind == "" or kind.endswith("_part") or float(row[7]) < SLOW:
            continue
        if float(row[12]) < LEAST_WORK:
            continue
        event = found[(row[0], row[1], row[3], kind, row[7], row[5 if kind == "host" else 4])]
        event[0] |= bool(by_trees[k])
        event[1] |= bool(named[k])
    for kind in sorted({event[3] for event in found}):
        of = [pair for event, pair in found.items() if event[3] == kind]
        print(f"{kind}: trees {sum(t for t, _ in of)}, flopwatch {sum(f for _, f in of)} "
              f"of {len(of)}")


main()
