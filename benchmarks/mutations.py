"""How strong are the tests? Small random mutations of the mathematics, each judged by the tests that mirror its module.

Usage: make mutations (ARGS="--mutations 300 --seed 0 --jobs 2"). Operators, constants and comparisons are changed, and
statements dropped, one at a time, in a copy of the package. A mutation is caught if a test fails or takes longer than
LIMIT. The survivors are listed; some of them change nothing that could be observed.
"""

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from joblib import Parallel, delayed

ROOT = Path(__file__).parents[1]
LIMIT = 300.0  # seconds
MIRRORS = {
    "losses.py": ["tests/test_losses.py"],
    "couplings.py": ["tests/test_couplings.py", "tests/test_objectives.py"],
    "objectives.py": ["tests/test_objectives.py"],
    "mixtures.py": ["tests/test_mixtures.py"],
    "metrics.py": ["tests/test_metrics.py"],
    "conformal.py": ["tests/test_conformal.py"],
    "recalibration.py": ["tests/test_recalibration.py"],
    "loss_correction.py": ["tests/test_recalibration.py"],
    "preprocessing/splits.py": ["tests/preprocessing/test_splits.py"],
    "preprocessing/standardisation.py": [
        "tests/preprocessing/test_standardisation.py",
        "tests/preprocessing/test_outliers.py",
    ],
    "preprocessing/outliers.py": ["tests/preprocessing/test_outliers.py"],
    "preprocessing/table_encoder.py": ["tests/preprocessing/test_table_encoder.py"],
    "training/held_out.py": ["tests/training/test_held_out.py"],
    "training/auto/fold_correction.py": ["tests/training/auto/test_fold_correction.py"],
}
ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
              ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.BitXor: ast.BitOr, ast.BitOr: ast.BitAnd,
              ast.BitAnd: ast.BitOr, ast.RShift: ast.LShift, ast.MatMult: ast.Mult}  # fmt: skip
COMPARISONS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
               ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In}  # fmt: skip


def sites(tree):
    """Nodes of functions that can be mutated, by number; not annotations, docstrings or messages."""
    found = []
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        function.returns = None
        for arg in [*function.args.args, *function.args.kwonlyargs, *function.args.posonlyargs]:
            arg.annotation = None
        for statement in function.body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Raise):
                    for inner in ast.walk(node):
                        inner.message = True
                if isinstance(node, ast.AnnAssign):
                    for inner in ast.walk(node.annotation):
                        inner.message = True
        inside = (node for node in ast.walk(function) if node is not function and not hasattr(node, "message"))
        found += [node for node in inside if kinds(node)]
    return list(dict.fromkeys(found))


def kinds(node):
    """How a node can be mutated."""
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in ARITHMETIC:
        return ["operator"]
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        return ["comparison"]
    if isinstance(node, ast.BoolOp):
        return ["and/or"]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        return ["sign"]
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return ["constant"]
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return ["dropped"]
    return []


def mutated(source, number, rng):
    """A module with its `number`-th site mutated, and what was done."""
    tree = ast.parse(source)
    node = sites(tree)[number]
    before, line = ast.unparse(node), node.lineno
    if isinstance(node, ast.BinOp | ast.AugAssign):
        node.op = ARITHMETIC[type(node.op)]()
    elif isinstance(node, ast.Compare):
        node.ops[0] = COMPARISONS[type(node.ops[0])]()
    elif isinstance(node, ast.BoolOp):
        node.op = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
    elif isinstance(node, ast.UnaryOp):
        node.op = ast.UAdd() if isinstance(node.op, ast.USub) else ast.Not()
        if isinstance(node.op, ast.Not):
            node.operand = ast.UnaryOp(ast.Not(), node.operand)
    elif isinstance(node, ast.Constant):
        value = node.value
        node.value = (not value) if isinstance(value, bool) else value + 1 if rng.random() < 0.5 else 2 * value + 1
    else:
        node.value = ast.Constant(None)
    after = ast.unparse(copy.deepcopy(node))
    return ast.unparse(ast.fix_missing_locations(tree)), f"line {line}: {before[:70]!r} -> {after[:70]!r}"


def judged(module, number, seed):
    """Whether the tests that mirror a module catch the mutation of a site."""
    place = Path(tempfile.gettempdir()) / f"aleator-mutations-{os.getpid()}"  # one copy a process, for Numba's cache
    package = place / "src" / "aleator"
    if not package.exists():
        shutil.copytree(ROOT / "src", place / "src", ignore=shutil.ignore_patterns("__pycache__"))
    original = (ROOT / "src" / "aleator" / module).read_text()
    text, what = mutated(original, number, random.Random(seed))
    (package / module).write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(place / "src"), "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    began = time.perf_counter()
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *MIRRORS[module]]
    command += [str(package / module)]  # its examples
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=LIMIT, check=False)
        caught = done.returncode != 0
    except subprocess.TimeoutExpired:
        caught = True
    finally:
        (package / module).write_text(original)
    return module, caught, what, time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mutations", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--modules", nargs="*", default=list(MIRRORS))
    asked = parser.parse_args()
    rng = random.Random(asked.seed)
    every = [
        (module, k)
        for module in asked.modules
        for k in range(len(sites(ast.parse((ROOT / "src" / "aleator" / module).read_text()))))
    ]
    chosen = rng.sample(every, min(asked.mutations, len(every)))
    results = Parallel(n_jobs=asked.jobs, return_as="generator_unordered")(
        delayed(judged)(module, k, asked.seed + number) for number, (module, k) in enumerate(sorted(chosen))
    )
    caught, total, survivors = Counter(), Counter(), []
    for module, fine, what, seconds in results:
        total[module] += 1
        caught[module] += fine
        if not fine:
            survivors.append(f"{module}, {what}")
        print(
            f"{sum(total.values()):4d} {'caught  ' if fine else 'SURVIVED'} {seconds:5.0f} s  {module}, {what}",
            file=sys.stderr,
            flush=True,
        )
    print(f"{len(every)} places, {sum(total.values())} mutations, seed {asked.seed}")
    for module in asked.modules:
        if total[module]:
            print(f"{module:36s} {caught[module]:4d} of {total[module]:4d}")
    print(f"caught: {sum(caught.values())} of {sum(total.values())}, {sum(caught.values()) / sum(total.values()):.1%}")
    print("\nsurvivors:")
    print("\n".join(sorted(survivors)))


if __name__ == "__main__":
    main()
