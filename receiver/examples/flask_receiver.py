"""A small, correct receiver of Standard Webhooks in Python (Flask), with SQLite as its inbox.

    pip install flask
    HOOK_SECRET=whsec_… python3 flask_receiver.py 9000 inbox.db

What matters: the body is verified as raw bytes before anything parses it; signatures are compared in constant time; the
delivery is committed before it is acknowledged; its id is taken once.
"""

import base64
import binascii
import hashlib
import hmac
import os
import re
import sqlite3
import sys
import threading
import time

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException
from werkzeug.serving import WSGIRequestHandler, make_server

TOLERANCE_SECONDS = 300
BODY_BYTES_MAX = 2 << 20
READ_SECONDS_MAX = 10
AT_ONCE_MAX = 64

app = Flask(__name__)
app.config["MAX_CONTENT_LENGTH"] = BODY_BYTES_MAX
key = base64.b64decode(os.environ["HOOK_SECRET"].removeprefix("whsec_"), validate=True)
database = sys.argv[2] if len(sys.argv) > 2 else "inbox.db"
writing = threading.Lock()
room = threading.BoundedSemaphore(AT_ONCE_MAX)


def connect():
    inbox = sqlite3.connect(database, timeout=5, isolation_level=None)
    inbox.execute("PRAGMA journal_mode = WAL")
    inbox.execute("PRAGMA synchronous = FULL")
    inbox.execute("CREATE TABLE IF NOT EXISTS inbox (id TEXT PRIMARY KEY, body BLOB NOT NULL, done INTEGER NOT NULL DEFAULT 0)")
    return inbox


def header(name):
    """The one value of a header, in visible ASCII; a header twice is joined by WSGI, and then fits no pattern below."""
    value = request.headers.get(name, "")
    return value if re.fullmatch(r"[\x20-\x7e]+", value) else None


def genuine(body):
    message, timestamp, signatures = map(header, ("webhook-id", "webhook-timestamp", "webhook-signature"))
    if not (message and timestamp and signatures):
        return None
    if not re.fullmatch(r"[\x21-\x2b\x2d\x2f-\x7e]{1,256}", message) or not re.fullmatch(r"[1-9][0-9]{0,14}", timestamp):
        return None
    if abs(time.time() - int(timestamp)) > TOLERANCE_SECONDS:
        return None
    expected = hmac.new(key, f"{message}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    for one in signatures.split(" "):
        version, _, encoded = one.partition(",")
        try:
            given = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            continue
        canonical = base64.b64encode(given).decode() == encoded
        if version == "v1" and canonical and hmac.compare_digest(given, expected):
            return message
    return None


@app.post("/hook")
def hook():
    body = request.get_data(cache=False)
    message = genuine(body)
    if message is None:
        return Response("not genuine\n", 401)
    if not room.acquire(blocking=False):
        return Response("come back later\n", 503, {"Retry-After": "1"})
    try:
        with writing:
            inbox = connect()
            # In one statement: two copies at once can't both be the first.
            inbox.execute("INSERT INTO inbox (id, body) VALUES (?, ?) ON CONFLICT (id) DO NOTHING", (message, body))
            inbox.close()
    except sqlite3.Error:
        return Response("come back later\n", 503, {"Retry-After": "5"})
    finally:
        room.release()
    work_is_there.set()
    return Response(status=204)


@app.get("/effects")
def effects():
    """For the certification. Keep it from the world."""
    inbox = connect()
    ids = [row[0] for row in inbox.execute("SELECT id FROM inbox WHERE done ORDER BY rowid")]
    inbox.close()
    return Response("".join(f"{one}\n" for one in ids), mimetype="text/plain")


@app.errorhandler(Exception)
def failed(error):
    """No stack trace for strangers."""
    return Response("no\n", error.code if isinstance(error, HTTPException) else 500)


work_is_there = threading.Event()
work_is_there.set()


def work():
    """The real work, outside of any request; once it is done, that is noted."""
    while True:
        work_is_there.wait()
        work_is_there.clear()
        try:
            with writing:
                inbox = connect()
                inbox.execute("UPDATE inbox SET done = 1 WHERE done = 0")
                inbox.close()
        except sqlite3.Error:
            time.sleep(1)
            work_is_there.set()


class Bounded(WSGIRequestHandler):
    """Cuts connections off that take too long, also if they send a byte now and then."""

    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self.deadline = threading.Timer(READ_SECONDS_MAX, self.cut)
        self.deadline.daemon = True
        self.deadline.start()

    def cut(self):
        try:
            self.connection.shutdown(2)
        except OSError:
            pass

    def finish(self):
        self.deadline.cancel()
        super().finish()


if __name__ == "__main__":
    connect().close()
    threading.Thread(target=work, daemon=True).start()
    make_server("127.0.0.1", int(sys.argv[1]), app, threaded=True, request_handler=Bounded).serve_forever()
