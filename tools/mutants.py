"""How many small mistakes in a folder the tests notice: ``make mutants FOLDER=potluck/core``.

Each mutant is one change to one place of one file: a comparison or an operator swapped, a number changed, a condition
negated, a statement or a returned value dropped. The tests are run once as they are, to see which of them run which
lines and how long each takes; each mutant then gets those that run its line, the quick ones and those of the file's
own test module first. It is killed by the first that fails. Everything happens on copies of the tree in a temporary
folder, so that no mutant is left behind.
"""

from __future__ import annotations

import argparse
import ast
import copy
import multiprocessing
import os
import queue
import random
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import coverage
import pytest

ROOT = Path(__file__).parent.parent
NOT_COPIED = (".*", "__pycache__", "*.egg-info")
PRELOADED = ["coverage", "hypothesis", "numpy", "pydantic", "pytest", "safetensors.torch", "sklearn.ensemble", "torch"]
"""What each run would import anew. Nothing of the tree itself, which differs from mutant to mutant."""

SECONDS_OF_TESTS = 30.0
"""How long the tests of one mutant take as they are, at most; those that would come later are left out."""
PATIENCE, GRACE = 2, 10
"""A run may take so many times its usual seconds, and these seconds more, of the processor: else it goes in circles."""
BUSY = 3
"""How many times as long it may take by the clock: others use the machine, too."""
MEMORY = 12 * 2**30

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


@dataclass(frozen=True)
class Mutant:
    """One change: ``new`` in the place of the bytes from ``start`` to ``end`` of a file."""

    path: str
    line: int
    lines: tuple[int, int]
    start: int
    end: int
    old: str
    new: str
    context: str

    def __str__(self) -> str:
        old = " ".join(self.old.split())
        where = f"  in  {self.context}" if len(old) < len(self.context) else ""
        return f"{self.path}:{self.line}  {old}  ->  {self.new}{where}"

    def applied(self, source: bytes) -> bytes:
        """The file with the change."""
        return source[: self.start] + self.new.encode() + source[self.end :]


def mutants_of(path: str, source: bytes) -> list[Mutant]:
    """Every mutant of a file."""
    found = []
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for statement, node, new in _changes(ast.parse(source)):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        lines = (min(statement.lineno, node.lineno), node.end_lineno or node.lineno)
        context = source[starts[node.lineno - 1] : starts[node.lineno]].decode().strip()
        mutant = Mutant(path, node.lineno, lines, start, end, source[start:end].decode(), new, context)
        if _differs(mutant, source):
            found.append(mutant)
    return list(dict.fromkeys(found))


def _differs(mutant: Mutant, source: bytes) -> bool:
    try:
        return ast.dump(ast.parse(mutant.applied(source))) != ast.dump(ast.parse(source))
    except SyntaxError:
        return False


def _changes(tree: ast.Module) -> Iterator[tuple[ast.stmt, Any, str]]:
    """The statement, the node in it that changes, and what stands there instead."""
    for node in ast.walk(tree):
        for statement in (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)):
            if isinstance(statement, ast.Assert | ast.Import | ast.ImportFrom) or _for_types_only(statement):
                continue  # an assertion tells mypy what is so; it decides nothing
            if (new := _dropped(statement)) is not None:
                yield statement, statement, new
            for inner in _expressions(statement):
                yield from ((statement, inner, f"({new})") for new in _variants(inner))


def _for_types_only(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test)


def _dropped(statement: ast.stmt) -> str | None:
    """What stands in the place of a statement that is left out. Without a variable nothing would run: those stay."""
    if isinstance(statement, ast.Return):
        return None if statement.value is None else "return None"
    if isinstance(statement, ast.Expr):
        return None if isinstance(statement.value, ast.Constant) else "pass"
    if isinstance(statement, ast.Assign):
        return None if any(isinstance(target, ast.Name) for target in statement.targets) else "pass"
    return "pass" if isinstance(statement, ast.AugAssign | ast.Raise | ast.Continue | ast.Break | ast.Delete) else None


def _expressions(statement: ast.stmt) -> Iterator[Any]:
    """The expressions of one statement, without those of statements in it, annotations, and formatted text.

    (Where a part of formatted text stands in a file is something Python 3.11 does not know.)
    """
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns") or (name == "decorator_list" and isinstance(node, ast.ClassDef)):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.keyword) and child.arg == "strict":
                    continue  # it guards against mistakes of ours, not of the user
                if isinstance(child, ast.AST) and not isinstance(child, ast.stmt | ast.JoinedStr):
                    waiting.append(child)
        if isinstance(node, ast.expr | ast.AugAssign):
            yield node
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            yield _Condition(node.test)
        if isinstance(node, ast.comprehension):
            yield from map(_Condition, node.ifs)


class _Condition:
    """An expression that decides, in its own place."""

    def __init__(self, test: ast.expr) -> None:
        self.test = test
        self.lineno, self.col_offset = test.lineno, test.col_offset
        self.end_lineno, self.end_col_offset = test.end_lineno, test.end_col_offset


def _variants(node: Any) -> Iterator[str]:
    if isinstance(node, _Condition):
        yield f"not ({ast.unparse(node.test)})"
    elif isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            changed = copy.deepcopy(node)
            changed.ops[index] = SWAPS[type(operator)]()  # type: ignore[call-overload]
            yield ast.unparse(changed)
    elif isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPS:
        changed_operator = copy.copy(node)
        changed_operator.op = SWAPS[type(node.op)]()  # type: ignore[assignment]
        yield ast.unparse(changed_operator)
    elif isinstance(node, ast.UnaryOp):
        yield ast.unparse(node.operand)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        yield repr(not node.value if isinstance(node.value, bool) else node.value + 1)


class Watch:
    """A pytest plugin: which tests are run, in which order, what each took, and which one failed first."""

    def __init__(self, chosen: list[str] | None = None, known: Iterable[str] = ()) -> None:
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []
        self._order = None if chosen is None else {name: index for index, name in enumerate(chosen)}
        self._known = set(known)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self._order is None:
            return
        order = dict(self._order)
        for name, index in self._order.items():
            order.setdefault(name.split("[")[0], index)
        # A mutant may change the settings that stand in a test's name; then all of that test are run.
        ranks = {
            item.nodeid: order.get(item.nodeid if item.nodeid in self._known else item.nodeid.split("[")[0])
            for item in items
        }
        chosen = [item for item in items if ranks[item.nodeid] is not None]
        items[:] = sorted(chosen, key=lambda item: ranks[item.nodeid] or 0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)


def _run_tests(folder: Path, arguments: list[str], watch: Watch, seconds: int, answer: Any) -> None:
    """Runs pytest in a process of its own, on the tree in a folder; answers with its exit code and the watch."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    log = os.open(folder / ".tests.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True  # a mutant of the same length, in the same second, would be taken for the last one
    os.environ |= {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    import hypothesis

    hypothesis.settings.register_profile("mutants", deadline=None, derandomize=True, database=None)
    hypothesis.settings.load_profile("mutants")
    code = pytest.main(["-q", "-p", "no:cacheprovider", "--tb=short", *arguments], plugins=[watch])
    answer.send((int(code), watch.seconds, watch.failed))


@dataclass
class Outcome:
    """How a run of tests ended; without a code it was ended after too long."""

    code: int | None
    seconds: dict[str, float]
    failed: list[str]


class Tree:
    """A copy of the working tree in which tests are run."""

    def __init__(self, folder: Path, context: ForkServerContext) -> None:
        self.folder = folder
        self._context = context
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*NOT_COPIED), symlinks=True)

    def run(self, arguments: list[str], watch: Watch, seconds: float) -> Outcome:
        """Runs tests, for so many seconds of the processor at most."""
        here, there = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_run_tests, args=(self.folder, arguments, watch, int(seconds), there))
        process.start()
        there.close()
        try:
            found = here.recv() if here.poll(BUSY * seconds) else (None, {}, [])
        except EOFError:  # it has crashed, or has used up its seconds
            process.join()
            found = (None if process.exitcode == -signal.SIGXCPU else -1, {}, [])
        _end(process.pid)
        process.join()
        return Outcome(*found)

    def mutated(self, mutant: Mutant, test: Callable[[], Outcome]) -> Outcome:
        """Runs tests on the tree with a change in it."""
        path = self.folder / mutant.path
        source = path.read_bytes()
        path.write_bytes(mutant.applied(source))
        try:
            return test()
        finally:
            path.write_bytes(source)


def _end(pid: int | None) -> None:
    """Ends a process and all that it has started."""
    try:
        os.killpg(pid or 0, signal.SIGKILL)
    except ProcessLookupError:
        return


@dataclass
class Baseline:
    """What the tests do as things are: what each takes, and which of them run which line of which file."""

    seconds: dict[str, float]
    failing: list[str]
    lines: dict[str, dict[int, set[str]]]

    @staticmethod
    def of(tree: Tree, arguments: list[str], seconds: float) -> Baseline:
        """Runs once what pytest runs with these arguments."""
        coverage_of_each = ["--cov=potluck", "--cov-context=test", "--cov-report="]
        outcome = tree.run([*arguments, *coverage_of_each], Watch(), seconds)
        if outcome.code not in (0, 1):
            log = (tree.folder / ".tests.log").read_text()[-2000:]
            raise SystemExit(f"The tests cannot be run as they are (code {outcome.code}):\n{log}")
        data = coverage.CoverageData(str(tree.folder / ".coverage"))
        data.read()
        lines: dict[str, dict[int, set[str]]] = {}
        for measured in data.measured_files():
            path = str(Path(measured).resolve().relative_to(tree.folder.resolve()))
            lines[path] = {
                line: {context.rsplit("|", 1)[0] for context in contexts if context}
                for line, contexts in data.contexts_by_lineno(measured).items()
            }
        return Baseline(outcome.seconds, outcome.failed, lines)

    def tests_for(self, mutant: Mutant) -> list[str]:
        """The tests that run a mutant's line, the most telling first.

        Where none does, those of the module's own test file are asked: a process that they start may. Of what is run at
        import alone, all tests of the folder or the file may see the result.
        """
        of_file = self.lines.get(mutant.path, {})
        first, last = mutant.lines
        run = [of_file[line] for line in range(first, last + 1) if line in of_file]
        own = f"{mirror(mutant.path)}::"
        found = set().union(*run)
        if not found:
            near = f"{Path(own).parent}/" if run else own
            found = {test for test in self.seconds if test.startswith(near)}
            found = found.union(*of_file.values()) if run else found
        usable = [test for test in found - set(self.failing) if test in self.seconds]
        usable.sort(key=lambda test: (not test.startswith(own), self.seconds[test], test))
        chosen: list[str] = []
        total = 0.0
        for test in usable:
            total += self.seconds[test]
            if chosen and total > SECONDS_OF_TESTS:
                break
            chosen.append(test)
        return chosen


def mirror(path: str) -> str:
    """The test module of a module: ``tests/core/test_plan.py`` of ``potluck/core/plan.py``."""
    parts = Path(path).with_suffix("").parts
    return str(Path("tests", *parts[1:-1], f"test_{parts[-1]}.py"))


def judge(tree: Tree, mutant: Mutant, baseline: Baseline) -> str:
    """What becomes of a mutant: "killed", "survived" or "no test", and by which test."""
    chosen = baseline.tests_for(mutant)
    if not chosen:
        return "no test"
    usual = sum(baseline.seconds[test] for test in chosen)
    files = list(dict.fromkeys(test.split("::")[0] for test in chosen))
    watch = Watch(chosen, baseline.seconds)
    outcome = tree.mutated(mutant, lambda: tree.run([*files, "-x"], watch, PATIENCE * usual + GRACE))
    if outcome.code == pytest.ExitCode.OK:
        return "survived"
    if outcome.code == pytest.ExitCode.NO_TESTS_COLLECTED:
        return "no test"
    if outcome.code is None:
        return "killed by the clock"
    return f"killed by {outcome.failed[0] if outcome.failed else 'a crash'}"


def sample(folders: Iterable[str], count: int, seed: int) -> list[Mutant]:
    """So many mutants of the files in some folders (or of some files), drawn under a seed, in order."""
    paths = [ROOT / folder for folder in folders]
    files = sorted({file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path])})
    every = [m for file in files for m in mutants_of(str(file.relative_to(ROOT)), file.read_bytes())]
    drawn = random.Random(seed).sample(every, min(count, len(every)))
    return sorted(drawn, key=lambda mutant: (mutant.path, mutant.start, mutant.new))


def play(mutants: list[Mutant], arguments: list[str], workers: int, seconds: float) -> dict[Mutant, str]:
    """What becomes of each mutant; those that there was no time for are not in it."""
    until = time.monotonic() + seconds
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    waiting: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
    for mutant in random.Random(0).sample(mutants, len(mutants)):  # so that what time allows is a sample, too
        waiting.put(mutant)
    judged: dict[Mutant, str] = {}

    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        trees = [Tree(Path(place, str(index)), context) for index in range(workers)]
        baseline = Baseline.of(trees[0], arguments, seconds)
        print(f"{len(baseline.seconds)} tests in {sum(baseline.seconds.values()):.0f} s.", flush=True)
        for test in baseline.failing:
            print(f"Fails as it is, and is not used: {test}", flush=True)

        def work(tree: Tree) -> None:
            while time.monotonic() < until:
                try:
                    mutant = waiting.get_nowait()
                except queue.Empty:
                    return
                judged[mutant] = judge(tree, mutant, baseline)
                print(f"{len(judged)}/{len(mutants)}  {mutant}  {judged[mutant]}", flush=True)

        threads = [threading.Thread(target=work, args=(tree,)) for tree in trees]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return judged


def report(mutants: list[Mutant], judged: dict[Mutant, str]) -> str:
    """The score, and every mutant that no test has noticed."""
    left = sorted((m for m, found in judged.items() if not found.startswith("killed")), key=lambda m: (m.path, m.start))
    lines = [f"\nNot noticed ({len(left)}):" if left else "\nAll were noticed."]
    lines += [f"  {mutant}" + ("  (no test runs it)" if judged[mutant] == "no test" else "") for mutant in left]
    if len(judged) < len(mutants):
        lines.append(f"There was no time for {len(mutants) - len(judged)} of {len(mutants)}.")
    for folder in sorted({str(Path(m.path).parent) for m in judged}):
        found = [judged[m].startswith("killed") for m in judged if str(Path(m.path).parent) == folder]
        lines.append(f"{folder}: {sum(found)} of {len(found)} mutants killed: {sum(found) / len(found):.1%}.")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="How many small mistakes in a folder the tests notice.")
    parser.add_argument("folders", nargs="+", help="folders or files below potluck/")
    parser.add_argument(
        "--tests", nargs="+", help="what is run (default: the folder's own tests and tests/integration)"
    )
    parser.add_argument("-k", default="", help="which of them, as pytest's -k")
    parser.add_argument("--count", type=int, default=200, help="how many mutants (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="what they are drawn with (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="how many run at once (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=60, help="how long it may take (default: %(default)s)")
    given = parser.parse_args()
    mutants = sample([folder.rstrip("/") for folder in given.folders], given.count, given.seed)
    own = {str(Path(mirror(mutant.path)).parent) for mutant in mutants}
    tests = given.tests or [path for path in sorted({*own, "tests/integration"}) if (ROOT / path).exists()]
    print(report(mutants, play(mutants, [*tests, "-k", given.k], given.workers, given.minutes * 60)))


if __name__ == "__main__":
    main()
