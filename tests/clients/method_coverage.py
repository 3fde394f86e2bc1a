"""Checks that the other scripts call every public method of python-zaqarclient for queues,
messages and claims.

Usage: method_coverage.py URL PROJECT. Exits with 0, or with 1 and one line that describes the failure.
"""

import functools
import sys

import administration
import feed
import shared
import work
from zaqarclient.queues.v2 import claim, message, queues



def main(url, project):
    called = set()
    public = {name for kind in (queues.Queue, message.Message, claim.Claim) for name in record_calls(kind, called)}
    for script in (feed, work, shared, administration):
        script.main(url, f"{project}-{script.__name__}")
    feed.same("the methods that no script calls", sorted(public - called), [])


def record_calls(kind, called):
    """Yields the names of a class's public methods and properties, and records their calls."""
    for name, member in list(vars(kind).items()):
        full_name = f"{kind.__name__}.{name}"
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            setattr(kind, name, property(recording(member.fget, full_name, called)))
        elif callable(member):
            setattr(kind, name, recording(member, full_name, called))
        else:
            continue
        yield full_name


def recording(function, name, called):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        called.add(name)
        return function(*args, **kwargs)

    return wrapper


if __name__ == "__main__":
    main(*sys.argv[1:])
