"""Counts what the other scripts call: no public method for queues, messages and claims may be left out.

Usage: census.py URL PROJECT. Ends with 1 and one line that says what is wrong, or with 0.
"""

import functools
import sys

import chores
import feed
import shared
import work
from zaqarclient.queues.v2 import claim, message, queues

# Methods of what is still to come.
LATER = ["Queue.subscriptions"]


def main(url, project):
    called = set()
    public = {name for kind in (queues.Queue, message.Message, claim.Claim) for name in recorded(kind, called)}
    for script in (feed, work, shared, chores):
        script.main(url, f"{project}-{script.__name__}")
    feed.same("what no script calls", sorted(public - called), LATER)


def recorded(kind, called):
    """The public methods and properties of a class, each from now on noted when it is called."""
    for name, member in list(vars(kind).items()):
        full_name = f"{kind.__name__}.{name}"
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            setattr(kind, name, property(noting(member.fget, full_name, called)))
        elif callable(member):
            setattr(kind, name, noting(member, full_name, called))
        else:
            continue
        yield full_name


def noting(function, name, called):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        called.add(name)
        return function(*args, **kwargs)

    return wrapper


if __name__ == "__main__":
    main(*sys.argv[1:])
