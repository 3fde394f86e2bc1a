"""An SMTP server that prints each mail as a line of JSON. The names of recipients say how it fails.

Returns 2 for unknown arguments.
"""

import argparse
import asyncio
import json
import logging
import ssl
import sys
import warnings
from collections import Counter
from email import message_from_bytes, policy

from aiosmtpd.smtp import SMTP, AuthResult


class Handler:
    """Accepts mails, but for some recipients."""

    def __init__(self):
        self.counts = Counter()

    def say(self, event, **fields):
        print(json.dumps({"event": event, **fields}), flush=True)

    async def handle_RCPT(self, server, session, envelope, address, options):
        name = address.split("@")[0]
        self.counts[address] += 1
        self.say("recipient", address=address)
        if name == "reject":
            return "550 5.1.1 no such user"
        if name == "defer-twice" and self.counts[address] <= 2:
            return "450 4.2.0 come back later"
        if name == "hang":
            await asyncio.sleep(3600)
        if name == "drop-once" and self.counts[address] == 1:
            server.transport.abort()
            return "250 OK"
        if name == "drip":
            while not server.transport.is_closing():
                server.transport.write(b"2")
                await asyncio.sleep(0.2)
        if name == "flood":
            while not server.transport.is_closing():
                server.transport.write(b"2" * 65536)
                await asyncio.sleep(0)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        first = envelope.rcpt_tos[0]
        if first.startswith("late-451@") and self.counts[first] == 1:
            return "451 4.3.0 no room for it"
        mail = message_from_bytes(envelope.content, policy=policy.default)
        self.say(
            "mail",
            connection=id(session),
            encrypted=server.transport.get_extra_info("sslcontext") is not None,
            login=session.auth_data.decode() if session.auth_data else None,
            hello=session.host_name,
            sender=envelope.mail_from,
            recipients=envelope.rcpt_tos,
            headers=[[name, str(value)] for name, value in mail.items()],
            raw_headers=envelope.content.split(b"\r\n\r\n")[0].decode("ascii"),
            text=mail.get_content(),
        )
        return "250 2.0.0 accepted as number 7"


def authenticate(server, session, envelope, mechanism, data):
    if (data.login, data.password) == (b"sukkal", b"hush-hush-password"):
        return AuthResult(success=True, auth_data=data.login)
    return AuthResult(success=False, handled=False)


async def serve(options):
    context = None
    if options.certificate:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(options.certificate, options.key)
    starttls = options.encryption == "starttls"
    handler = Handler()

    def connection():
        server = SMTP(
            handler,
            tls_context=context if starttls else None,
            require_starttls=starttls,
            authenticator=authenticate,
            auth_required=options.login,
            auth_require_tls=options.encryption == "starttls",
            data_size_limit=None,
        )
        handler.say("connection")
        return server

    tls = context if options.encryption == "tls" else None
    server = await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0, ssl=tls)
    handler.say("listening", port=server.sockets[0].getsockname()[1])
    await server.serve_forever()


def main():
    # It warns about logins without TLS, about its own use of old names, and about broken handshakes.
    logging.getLogger("mail.log").setLevel(logging.CRITICAL)
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("--encryption", choices=["none", "starttls", "tls"], default="none")
    parser.add_argument("--certificate")
    parser.add_argument("--key")
    parser.add_argument("--login", action="store_true")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
