#!/usr/bin/env python3
"""A small webhook sender on the standard library alone: the example to copy a driver file from.

It keeps its events in SQLite, delivers form-encoded bodies with a signature of its own, one after another for each
subscriber, retries by a fixed schedule, and does not send before the time that an endpoint asked for. Its control calls
are forms. `--bug NAME` switches one mistake on, to see it caught.

    POST /subscribers    name, url, types (JSON), rate (deliveries a second), timeout  ->  {"id", "secret"}
    DELETE /subscribers/ID
    POST /events         id, type, data  ->  202 {"deliveries"}
    GET /stats           {"waiting", "dead", "delivered"}
    GET /dead            {"items": [{"subscriber", "id", "reason", "attempts", "data"}]}
    GET /ready
"""

import argparse
import email.utils
import hashlib
import hmac
import http.client
import json
import secrets
import signal
import sqlite3
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SCHEDULE = [1.0, 2.0, 4.0, 8.0]
BUGS = ["signs-another-timestamp", "retries-too-early"]
TABLES = """
CREATE TABLE IF NOT EXISTS subscriber (id INTEGER PRIMARY KEY, name TEXT, url TEXT, types TEXT, rate REAL, timeout REAL,
    secret TEXT, paused_until REAL DEFAULT 0);
CREATE TABLE IF NOT EXISTS delivery (id INTEGER PRIMARY KEY, event TEXT, subscriber INTEGER, type TEXT, data TEXT,
    attempts INTEGER DEFAULT 0, due REAL, state TEXT DEFAULT 'waiting', UNIQUE (event, subscriber));
CREATE INDEX IF NOT EXISTS due ON delivery (subscriber, state, due, id);
"""


class Store:
    """One connection to the file, one user at a time. What is committed survives a power cut."""

    def __init__(self, path):
        self.lock = threading.Lock()
        self.file = sqlite3.connect(path, check_same_thread=False)
        self.file.execute("PRAGMA journal_mode = WAL")
        self.file.execute("PRAGMA synchronous = FULL")
        self.file.executescript(TABLES)

    def run(self, *statements):
        """Runs statements in one transaction; answers the rows and the id of the last."""
        with self.lock, self.file:
            for text, values in statements:
                cursor = self.file.execute(text, values)
            return cursor.fetchall(), cursor.lastrowid


class Lane(threading.Thread):
    """Delivers to one subscriber."""

    def __init__(self, sender, row):
        super().__init__(daemon=True)
        self.sender = sender
        self.id, self.url, self.rate, self.timeout, self.secret, self.paused_until = row
        self.wake = threading.Event()
        self.ended = False

    def run(self):
        # What was under way when an earlier process died may have arrived just now.
        self.pause(1 / self.rate)
        while not self.over():
            found, _ = self.sender.store.run((
                "SELECT id, event, type, data, attempts, due FROM delivery WHERE subscriber = ? AND state = 'waiting' "
                "ORDER BY due, id LIMIT 1", (self.id,)))
            now = time.time()
            begin = max(found[0][5], self.paused_until) if found else now + 60
            if begin > now:
                self.wake.wait(begin - now)
                self.wake.clear()
                continue
            self.deliver(*found[0][:5])
            # Counted from the end of the attempt: however long it was under way, the next one arrives no sooner.
            self.pause(1 / self.rate)

    def over(self):
        return self.ended or self.sender.stopping.is_set()

    def pause(self, length):
        self.sender.stopping.wait(length)

    def deliver(self, delivery, event, kind, data, attempts):
        body = urllib.parse.urlencode({"event": kind, "payload": data})
        status, retry_after = self.attempt(event, body)
        attempts += 1
        now = time.time()
        if status is not None and 200 <= status < 300:
            state, due = "delivered", now
        elif attempts > len(SCHEDULE):
            state, due = "dead", now
        else:
            state, due = "waiting", now + SCHEDULE[attempts - 1]
        statements = [("UPDATE delivery SET state = ?, attempts = ?, due = ? WHERE id = ?",
                       (state, attempts, due, delivery))]
        if retry_after and self.sender.bug != "retries-too-early":
            self.paused_until = max(self.paused_until, now + retry_after)
            statements.append(("UPDATE subscriber SET paused_until = ? WHERE id = ?", (self.paused_until, self.id)))
        self.sender.store.run(*statements)

    def attempt(self, event, body):
        """One request: its status, none without an answer, and for how many seconds the endpoint wants to be left alone."""
        stamp = str(int(time.time()))
        signed = str(int(stamp) + 1) if self.sender.bug == "signs-another-timestamp" else stamp
        text = f"{event}\n{signed}\n{body}"
        tag = hmac.new(self.secret.encode(), text.encode(), hashlib.sha256).hexdigest()
        url = urllib.parse.urlsplit(self.url)
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=self.timeout)
        try:
            connection.request("POST", url.path or "/", body, {
                "Content-Type": "application/x-www-form-urlencoded",
                "X-Plain-Id": event,
                "X-Plain-Time": stamp,
                "X-Plain-Signature": f"v1={tag}",
            })
            answer = connection.getresponse()
            answer.read(1 << 16)
            return answer.status, seconds(answer.getheader("Retry-After"))
        except (OSError, http.client.HTTPException):
            return None, None
        finally:
            connection.close()


def seconds(text):
    """What a Retry-After asks for: a number, or a date."""
    if not text:
        return None
    if text.strip().isdigit():
        return int(text)
    try:
        return email.utils.parsedate_to_datetime(text).timestamp() - time.time()
    except ValueError:
        return None


class Sender:
    def __init__(self, path, bug):
        self.store, self.bug = Store(path), bug
        self.stopping = threading.Event()
        self.lanes, self.lock = {}, threading.Lock()
        rows, _ = self.store.run(("SELECT id, url, rate, timeout, secret, paused_until FROM subscriber", ()))
        for row in rows:
            self.open(row)

    def open(self, row):
        lane = Lane(self, row)
        with self.lock:
            self.lanes[lane.id] = lane
        lane.start()

    def subscribe(self, form):
        secret = secrets.token_hex(24)
        own = (form["url"], float(form["rate"]), float(form["timeout"]), secret)
        _, number = self.store.run((
            "INSERT INTO subscriber (name, types, url, rate, timeout, secret) VALUES (?, ?, ?, ?, ?, ?)",
            (form["name"], form["types"], *own)))
        self.open((number, *own, 0))
        return 201, {"id": number, "secret": secret}

    def unsubscribe(self, number):
        with self.lock:
            lane = self.lanes.pop(number, None)
        if lane is None:
            return 404, {"error": "no such subscriber"}
        lane.ended = True
        lane.wake.set()
        self.store.run(("DELETE FROM delivery WHERE subscriber = ? AND state = 'waiting'", (number,)),
                       ("DELETE FROM subscriber WHERE id = ?", (number,)))
        return 204, None

    def emit(self, form):
        json.loads(form["data"])
        rows, _ = self.store.run(("SELECT id, types FROM subscriber", ()))
        matched = [number for number, types in rows if form["type"] in json.loads(types)]
        now = time.time()
        if matched:
            self.store.run(*(("INSERT OR IGNORE INTO delivery (event, subscriber, type, data, due) VALUES (?, ?, ?, ?, ?)",
                              (form["id"], number, form["type"], form["data"], now)) for number in matched))
        with self.lock:
            lanes = [self.lanes[number] for number in matched if number in self.lanes]
        for lane in lanes:
            lane.wake.set()
        return 202, {"deliveries": len(matched)}

    def stats(self):
        rows, _ = self.store.run(("SELECT state, COUNT(*) FROM delivery GROUP BY state", ()))
        return 200, {"waiting": 0, "dead": 0, "delivered": 0, **dict(rows)}

    def dead(self):
        rows, _ = self.store.run((
            "SELECT subscriber.name, event, attempts, data FROM delivery JOIN subscriber ON subscriber.id = subscriber "
            "WHERE state = 'dead' ORDER BY delivery.id", ()))
        names = ("subscriber", "id", "attempts", "data")
        return 200, {"items": [{**dict(zip(names, row)), "reason": "tried_in_vain"} for row in rows]}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        text = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        form = dict(urllib.parse.parse_qsl(text, keep_blank_values=True))
        calls = {"/subscribers": self.server.sender.subscribe, "/events": self.server.sender.emit}
        try:
            self.answer(*calls[self.path](form) if self.path in calls else (404, None))
        except (KeyError, ValueError) as error:
            self.answer(400, {"error": f"{type(error).__name__}: {error}"})

    def do_GET(self):
        sender = self.server.sender
        calls = {"/stats": sender.stats, "/dead": sender.dead, "/ready": lambda: (200, {})}
        self.answer(*calls[self.path]() if self.path in calls else (404, None))

    def do_DELETE(self):
        number = self.path.removeprefix("/subscribers/")
        self.answer(*self.server.sender.unsubscribe(int(number)) if number.isdigit() else (404, None))

    def answer(self, status, content):
        body = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser(description="A small webhook sender.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--file", required=True)
    parser.add_argument("--bug", choices=BUGS)
    arguments = parser.parse_args()
    sender = Sender(arguments.file, arguments.bug)
    server = ThreadingHTTPServer(("127.0.0.1", arguments.port), Handler)
    server.daemon_threads = True
    server.sender = sender

    def stop(*_):
        sender.stopping.set()
        for lane in list(sender.lanes.values()):
            lane.wake.set()
        threading.Thread(target=server.shutdown).start()

    signal.signal(signal.SIGTERM, stop)
    server.serve_forever()
    for lane in list(sender.lanes.values()):
        lane.join()


main()
