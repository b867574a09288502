"""The wheel in an empty environment of each Python, without extras: does it install, and do the commands run?

Usage: make wheel-check PYTHONS="python3.11 python3.12". Last, `aleator[all]` is resolved, but not installed.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIT = ["fit", "demo/houses.csv", "--target", "price", "--model", "boosting", "--out", "m.aleator", "--report", "m.html"]


def run(*command: object, cwd: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        run(sys.executable, "-m", "build", "-q", "--no-isolation", "--outdir", place, ROOT, cwd=place)
        (wheel,) = Path(place).glob("*.whl")
        (source,) = Path(place).glob("*.tar.gz")
        print(f"{wheel.name} {wheel.stat().st_size / 1e6:.1f} MB, {source.name} {source.stat().st_size / 1e6:.1f} MB")
        for python in sys.argv[1:]:
            began, env = time.perf_counter(), Path(place) / Path(python).name
            run(python, "-m", "venv", env, cwd=place)
            run(env / "bin/python", "-m", "pip", "install", "-q", "--upgrade", "pip", cwd=place)
            run(env / "bin/python", "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel, cwd=place)
            folder = Path(place) / f"{Path(python).name}-work"
            folder.mkdir()
            for command in (["demo"], FIT, ["predict", "m.aleator", "demo/houses.csv", "--out", "answers.csv"]):
                run(env / "bin/aleator", *command, cwd=folder)
            rows = len((folder / "answers.csv").read_text().splitlines()) - 1
            packages = len(run(env / "bin/python", "-m", "pip", "list", "--format=freeze", cwd=place).splitlines())
            version = run(env / "bin/python", "--version", cwd=place).strip()
            print(
                f"{version}: {packages} packages; demo, fit and predict of {rows} rows, {time.perf_counter() - began:.0f} s"
            )
        resolve = [env / "bin/python", "-m", "pip", "install", "-q", "--dry-run", "-c", ROOT / "constraints.txt"]
        run(*resolve, f"aleator[all] @ file://{wheel}", cwd=place)
        print("aleator[all] resolves")


if __name__ == "__main__":
    main()
