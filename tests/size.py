"""Prints the lines of code of the service, its Lua, its console, its tests and its benchmarks, and the number of
files that two recipes of CONTRIBUTING.md name.

Lines of code are neither blank nor only a comment. Unit tests count as tests.
"""

import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMMENTS = {".rs": "//", ".js": "//", ".lua": "--", ".py": "#", ".css": "/*"}
UNIT_TESTS = re.compile(r"^#\[cfg\(test\)\]\nmod tests \{\n.*?^\}\n", re.MULTILINE | re.DOTALL)
# Parts of the tree by the beginnings and ends of paths.
PARTS = [
    ("service, Rust", ("src/", "crates/"), (".rs",)),
    ("service, Lua", ("scripts/",), (".lua",)),
    ("console, JavaScript and CSS", ("src/", "crates/"), (".js", ".css")),
    ("tests, Rust", ("tests/",), (".rs",)),
    ("tests, other languages", ("tests/",), (".py", ".js", ".lua")),
    ("benchmarks, Rust", ("benches/",), (".rs",)),
]
RECIPES = ["Add an operation", "Add a kind of record"]
FILE = re.compile(r"`([\w/.-]+(?:/|\.(?:rs|lua|md|yaml|toml|txt)))`")


def code_lines(text, suffix):
    lines = (line.strip() for line in text.splitlines())
    return sum(1 for line in lines if line and not line.startswith(COMMENTS[suffix]))


def recipe_files(guide, title):
    """Returns the files and folders that a recipe names, or None if there is no such recipe."""
    section = re.search(rf"^### {title}\n(.*?)(?=^##|\Z)", guide, re.MULTILINE | re.DOTALL)
    return set(FILE.findall(section[1])) if section else None


def main():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    counts, unit_tests = dict.fromkeys((name for name, _, _ in PARTS), 0), 0
    for path in filter(None, listed.split("\0")):
        for name, beginnings, ends in PARTS:
            if path.startswith(beginnings) and path.endswith(ends) and (ROOT / path).is_file():
                text, suffix = (ROOT / path).read_text(), pathlib.Path(path).suffix
                if name == "service, Rust":
                    is_test = path.endswith("/tests.rs") or "/tests/" in path
                    service = "" if is_test else UNIT_TESTS.sub("", text)
                    unit_tests += code_lines(text, suffix) - code_lines(service, suffix)
                    text = service
                counts[name] += code_lines(text, suffix)
    counts["unit tests, Rust"] = unit_tests
    for name, count in counts.items():
        print(f"{count:7,}  lines of code: {name}")
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    for title in RECIPES:
        files = recipe_files(guide, title)
        print(f"{'-' if files is None else len(files):>7}  files named by \"{title}\"")


main()
