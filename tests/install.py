"""Installs packages that tests and benchmarks need, below `target`, once and whenever their list changes.

Usage: install.py python FOLDER LIST   a virtual environment in target/FOLDER/venv with the packages of
                                       the file LIST
       install.py node                 target/node-tests with the packages of tests/clients/generated

Blocks while another process installs the same packages. Needs a package index.
"""

import fcntl
import pathlib
import shutil
import subprocess
import sys

TESTS = pathlib.Path(__file__).resolve().parent
TARGET = TESTS.parent / "target"
NODE_LISTS = [TESTS / "clients/generated" / name for name in ("package.json", "package-lock.json")]


def main(arguments):
    match arguments:
        case ["python", folder, packages]:
            install(folder, [pathlib.Path(packages)], install_python)
        case ["node"]:
            install("node-tests", NODE_LISTS, install_node)
        case _:
            sys.exit(__doc__)


def install(name, lists, how):
    folder = TARGET / name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = folder / "installed.txt"
        wanted = "".join(packages.read_text() for packages in lists)
        if stamp.exists() and stamp.read_text() == wanted:
            return
        # The stamp is removed first and written last, so that an interrupted installation does not count.
        stamp.unlink(missing_ok=True)
        how(folder, lists)
        stamp.write_text(wanted)


def install_python(folder, lists):
    run("python3", "-m", "venv", "--clear", folder / "venv")
    run(folder / "venv/bin/python", "-m", "pip", "install", "--quiet", "--requirement", lists[0])


def install_node(folder, lists):
    for file in lists:
        shutil.copy(file, folder)
    run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", cwd=folder)


def run(*command, cwd=None):
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{command} ended with status {done.returncode}:\n{done.stdout}")


if __name__ == "__main__":
    main(sys.argv[1:])
