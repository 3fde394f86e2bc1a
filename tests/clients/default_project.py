"""`openstack messaging` without Keystone, a project or a proxy: the server has a default project.

Usage: default_project.py URL PROJECT. Exits with 0, or with 1 and one line that describes the failure.
"""

import os
import sys

from command_line import command, messages_are_posted_and_claimed, queues_are_created_listed_and_deleted
from feed import connect, same


def main(url, project):
    # The program refuses to post without it.
    os.environ["OS_MESSAGE_CLIENT_ID"] = "3381af92-2b9e-11e3-b191-71861300734c"
    openstack = command(**{"auth-type": "none", "endpoint": url})
    queues_are_created_listed_and_deleted(openstack)
    messages_are_posted_and_claimed(openstack)

    owner = connect(url, project, "3381af922b9e11e3b19171861300734c")
    queues, _ = owner.queues(with_count=True)
    same("the queues of the default project", [queue.name for queue in queues.stream()], ["tasks"])


if __name__ == "__main__":
    main(*sys.argv[1:])
