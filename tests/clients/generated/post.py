"""Creates a queue and posts a message with a client generated from openapi.yaml, and reads both back.

Usage: python -m post URL PROJECT
"""

import sys

from sukkal_client import Client
from sukkal_client.api.messages import get_message, post_messages
from sukkal_client.api.queues import create_queue, get_queue
from sukkal_client.models import Message, Metadata, NewMessages, NewMessagesMessagesItem, NewMetadata, Receipt

CLIENT_ID = "3381af92-2b9e-11e3-b191-71861300734c"


def main(url: str, project: str) -> None:
    client = Client(base_url=url, raise_on_unexpected_status=True).with_headers(
        {"Client-ID": CLIENT_ID, "X-Project-ID": project}
    )
    create_queue.sync("python", client=client, body=NewMetadata(field_default_message_ttl=86400))
    queue = get_queue.sync("python", client=client)
    assert isinstance(queue, Metadata), queue
    print(f"The queue keeps messages for {queue.field_default_message_ttl} s.")

    messages = NewMessages(messages=[NewMessagesMessagesItem(body={"typed": "yes"})])
    posted = post_messages.sync("python", client=client, body=messages)
    assert isinstance(posted, Receipt), posted
    message_id = posted.resources[0].rsplit("/", 1)[-1]
    message = get_message.sync("python", message_id, client=client)
    assert isinstance(message, Message), message
    print(f"It has the message {message.body}.")


if __name__ == "__main__":
    main(*sys.argv[1:])
