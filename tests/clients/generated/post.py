"""Posts a message with a client generated from openapi.yaml, and reads it back.

Usage: python -m post URL PROJECT
"""

import sys

from sukkal_client import Client
from sukkal_client.api.messages import list_messages, post_messages
from sukkal_client.models import MessagePage, NewMessages, NewMessagesMessagesItem, Receipt

CLIENT_ID = "3381af92-2b9e-11e3-b191-71861300734c"


def main(url: str, project: str) -> None:
    client = Client(base_url=url)
    messages = NewMessages(messages=[NewMessagesMessagesItem(ttl=300, body={"typed": "yes"})])
    posted = post_messages.sync("python", client=client, client_id=CLIENT_ID, x_project_id=project, body=messages)
    assert isinstance(posted, Receipt), posted
    listed = list_messages.sync(
        "python", client=client, client_id=CLIENT_ID, x_project_id=project, echo=True, limit=1
    )
    assert isinstance(listed, MessagePage), listed
    assert [message.href for message in listed.messages] == posted.resources


if __name__ == "__main__":
    main(*sys.argv[1:])
