//! The scenarios in which the bugs show, and the bugs.

use crate::matrix::Stage;

/// A bug, and the check that must catch it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bug {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) check: &'static str,
    pub(crate) scenario: &'static str,
}

const fn bug(name: &'static str, about: &'static str, check: &'static str, scenario: &'static str) -> Bug {
    Bug { name, about, check, scenario }
}

pub(crate) const BUGS: [Bug; 46] = [
    bug(
        "charges-on-send",
        "charges its bucket when it sends, not when it is over",
        "rate.envelope",
        "limits",
    ),
    bug(
        "does-not-clamp-its-bucket",
        "saves up what it did not send during a rest",
        "rate.after-idle",
        "limits",
    ),
    bug(
        "counts-by-the-calendar",
        "caps each calendar second instead of each window",
        "rate.window",
        "limits",
    ),
    bug(
        "has-no-cap-on-requests-in-flight",
        "a rate without a cap on what is open (S3)",
        "rate.in-flight",
        "limits",
    ),
    bug("does-not-charge-retries", "retries pass by the limiter", "rate.retries-count", "answers"),
    bug("forgets-the-limiter-at-restart", "a full bucket after every start", "rate.across-restart", "crash"),
    bug(
        "has-a-limiter-for-each-worker",
        "N workers send N times the limit (S3)",
        "rate.across-workers",
        "workers",
    ),
    bug("ignores-retry-after", "429 into blind retry (S3)", "retry.after-429", "answers"),
    bug(
        "honours-retry-after-on-429-only",
        "503 with Retry-After is retried too soon",
        "retry.after-503",
        "answers",
    ),
    bug("reads-retry-after-in-seconds-only", "the date form is ignored", "retry.after-date", "answers"),
    bug("jitters-retry-after-early", "jitter takes off instead of adding", "retry.after-429", "answers"),
    bug("clamps-retry-after", "half a second is all it waits", "retry.after-429", "answers"),
    bug(
        "pauses-one-delivery-only",
        "the endpoint's pause holds one delivery back",
        "retry.after-endpoint",
        "answers",
    ),
    bug("has-no-jitter", "every retry at the same distance", "retry.backoff-jitter", "backoff"),
    bug("retries-at-once", "no backoff at all", "retry.backoff-bounds", "backoff"),
    bug("makes-one-attempt-too-many", "counts retries, not attempts", "retry.attempts", "answers"),
    bug("takes-204-for-a-failure", "only 200 is success", "retry.status", "answers"),
    bug("follows-redirects", "sends the body wherever it is told to", "retry.status", "answers"),
    bug("ignores-410", "goes on after the endpoint said that it is gone", "retry.gone", "answers"),
    bug(
        "sends-a-hidden-second-request",
        "its client repeats a request that broke off",
        "retry.hidden",
        "answers",
    ),
    bug(
        "begins-its-deadline-anew-with-every-byte",
        "a dripping answer holds a worker for as long as it drips",
        "network.timeout",
        "answers",
    ),
    bug(
        "takes-a-reset-for-success",
        "a request that was cut counts as delivered",
        "network.reset",
        "answers",
    ),
    bug(
        "rebuilds-the-body-for-a-retry",
        "a retry says which attempt it is, in the body",
        "identity.body",
        "answers",
    ),
    bug(
        "makes-a-new-id-for-a-retry",
        "an endpoint cannot tell a retry from an event",
        "format.id",
        "answers",
    ),
    bug(
        "signs-all-with-one-secret",
        "the first subscriber's secret signs for all",
        "identity.secret",
        "answers",
    ),
    bug(
        "signs-the-body-alone",
        "leaves id and timestamp out of the signature",
        "format.signature",
        "answers",
    ),
    bug("stamps-in-milliseconds", "timestamps a thousand times too large", "format.timestamp", "answers"),
    bug("names-no-content-type", "no content type", "format.post-json", "answers"),
    bug(
        "storms-on-recovery",
        "lets the whole backlog go when a pause is over (S3)",
        "recovery.no-storm",
        "recovery",
    ),
    bug("has-one-pool-for-all", "hung endpoints take all workers", "isolation.gap", "isolation"),
    bug("has-no-bound", "a queue without a bound (S3)", "queue.bounded", "queue"),
    bug("sheds-in-silence", "what does not fit is gone without a trace", "loss.none", "queue"),
    bug("never-expires", "sends what is older than agreed", "queue.expires", "queue"),
    bug(
        "acknowledges-before-it-commits",
        "an acknowledgement that a crash takes back",
        "crash.ack-then-kill",
        "crash",
    ),
    bug(
        "forgets-what-it-delivered",
        "delivers everything again after a restart",
        "duplicate.bounded",
        "crash",
    ),
    bug("forgets-the-path", "posts to the origin of the URL", "path.own", "answers"),
    bug(
        "waits-twice-as-long",
        "takes an answer that comes after its deadline",
        "network.deadline",
        "answers",
    ),
    bug(
        "begins-what-it-breaks-off",
        "begins five requests beside each delivery, and breaks them off",
        "rate.envelope",
        "limits",
    ),
    bug("filters-by-its-own-rules", "gives up a tenth, and has a word for it", "loss.none", "limits"),
    bug("matches-nobody", "says of each event that it matched nobody", "queue.truth", "limits"),
    bug(
        "counts-what-waits-as-delivered",
        "says that all was delivered as soon as it has it",
        "queue.truth",
        "limits",
    ),
    bug(
        "hands-one-secret-to-all",
        "each subscriber gets the first one's secret",
        "identity.secret",
        "limits",
    ),
    bug("panics-at-its-end", "ends with 101 when it is asked to stop", "process.exits", "limits"),
    bug("refuses-without-need", "turns a tenth of the events away", "emit.accepted", "answers"),
    bug(
        "repeats-what-it-confirmed",
        "forgets what it did in the second before a kill",
        "duplicate.bounded",
        "crash",
    ),
    bug(
        "sends-to-whom-it-does-not-concern",
        "ignores the subscribers' patterns",
        "loss.unexpected",
        "answers",
    ),
];

pub(crate) const SCENARIOS: [Stage; 8] = [
    Stage { name: "limits", text: LIMITS },
    Stage { name: "answers", text: ANSWERS },
    Stage { name: "backoff", text: BACKOFF },
    Stage { name: "recovery", text: RECOVERY },
    Stage { name: "queue", text: QUEUE },
    Stage { name: "isolation", text: ISOLATION },
    Stage { name: "crash", text: CRASH },
    Stage { name: "workers", text: WORKERS },
];

const LIMITS: &str = r#"
name  = "limits"
drain = "10s"
[[traffic]]
shape = "burst"
events = 40
[[traffic]]
shape = "pause"
lasts = "4s"
[[traffic]]
shape = "burst"
events = 40
[events]
data_bytes = "150..300"
[[subscriber]]
name    = "rested"
limit   = { rate = "20/s", burst = 8, in_flight = 8 }
timeout = "5s"
answers = "1ms..20ms"
[[subscriber]]
name    = "stalling"
limit   = { rate = "30/s", burst = 6, in_flight = 40 }
timeout = "5s"
answers = "1ms"
[[subscriber.behaviour]]
at     = "300ms"
lasts  = "800ms"
answer = "stall"
[[subscriber]]
name    = "windowed"
limit   = { rate = "1000/s", burst = 100, windows = ["10 per 1s"], in_flight = 20 }
timeout = "5s"
answers = "1ms..5ms"
[[subscriber]]
name    = "narrow"
limit   = { rate = "1000/s", burst = 100, in_flight = 3 }
timeout = "5s"
answers = "30ms..60ms"
"#;

const ANSWERS: &str = r#"
name  = "answers"
drain = "15s"
[[traffic]]
shape = "steady"
rate  = "50/s"
lasts = "4s"
[events]
types = { "video.trending" = 9, "other.thing" = 1 }
data_bytes = "150..300"
[[subscriber]]
name    = "first"
limit   = { rate = "1000/s", burst = 400, in_flight = 100 }
timeout = "2s"
[[subscriber]]
name    = "busy"
events  = ["video.*"]
limit   = { rate = "500/s", burst = 200, in_flight = 100 }
timeout = "2s"
retry   = { base = "100ms", cap = "400ms", attempts = 8 }
[[subscriber.behaviour]]
at     = "500ms"
lasts  = "200ms"
answer = 429
retry_after = "2s"
[[subscriber]]
name    = "resting"
limit   = { rate = "500/s", burst = 200, in_flight = 100 }
timeout = "2s"
retry   = { base = "100ms", cap = "400ms", attempts = 8 }
[[subscriber.behaviour]]
at     = "500ms"
lasts  = "200ms"
answer = 503
retry_after = "2s"
[[subscriber]]
name    = "dated"
limit   = { rate = "500/s", burst = 200, in_flight = 100 }
timeout = "2s"
retry   = { base = "100ms", cap = "400ms", attempts = 8 }
[[subscriber.behaviour]]
at     = "500ms"
lasts  = "200ms"
answer = 503
retry_after_date = "3s"
[[subscriber]]
name    = "flaky"
limit   = { rate = "2000/s", burst = 1000, in_flight = 100 }
timeout = "2s"
retry   = { base = "600ms", cap = "2s", attempts = 4 }
[[subscriber.behaviour]]
attempts = "1..2"
answer   = 500
[[subscriber]]
name    = "broken"
limit   = { rate = "1000/s", burst = 1000, in_flight = 100 }
timeout = "2s"
retry   = { base = "20ms", cap = "50ms", attempts = 3 }
[[subscriber.behaviour]]
answer = 500
[[subscriber]]
name    = "tight"
limit   = { rate = "70/s", burst = 10, in_flight = 100 }
timeout = "2s"
retry   = { base = "20ms", cap = "50ms", attempts = 6 }
[[subscriber.behaviour]]
attempts = "1..2"
answer   = 500
at       = "1s"
lasts    = "1s"
[[subscriber]]
name    = "moved"
limit   = { rate = "1000/s", burst = 400, in_flight = 100 }
timeout = "2s"
retry   = { base = "50ms", cap = "100ms", attempts = 4 }
[[subscriber.behaviour]]
attempts = "1"
answer   = 302
location = "/elsewhere"
[[subscriber]]
name    = "leaver"
limit   = { rate = "1000/s", burst = 400, in_flight = 100 }
timeout = "2s"
[[subscriber.behaviour]]
at     = "2s"
answer = 410
[[subscriber]]
name    = "cutting"
limit   = { rate = "1000/s", burst = 400, in_flight = 100 }
timeout = "2s"
retry   = { base = "1s", cap = "2s", attempts = 6 }
[[subscriber.behaviour]]
attempts = "1"
share    = 0.5
answer   = "reset-after-read"
[[subscriber]]
name    = "dripping"
limit   = { rate = "1000/s", burst = 400, in_flight = 300 }
timeout = "1s"
retry   = { base = "50ms", cap = "100ms", attempts = 4 }
[[subscriber.behaviour]]
attempts = "1"
share    = 0.1
answer   = "drip"
pace     = "50ms"
[[subscriber]]
name    = "late"
limit   = { rate = "1000/s", burst = 400, in_flight = 300 }
timeout = "1s"
retry   = { base = "50ms", cap = "100ms", attempts = 4 }
[[subscriber.behaviour]]
attempts = "1"
share    = 0.2
answer   = 200
latency  = "1600ms"
[[subscriber]]
name    = "silent"
limit   = { rate = "1000/s", burst = 400, in_flight = 300 }
timeout = "1s"
retry   = { base = "50ms", cap = "100ms", attempts = 4 }
[[subscriber.behaviour]]
attempts = "1"
share    = 0.2
answer   = "blackhole"
"#;

const BACKOFF: &str = r#"
name  = "backoff"
drain = "20s"
[[traffic]]
shape = "steady"
rate  = "50/s"
lasts = "3s"
[events]
types = { "video.trending" = 19, "other.thing" = 1 }
data_bytes = "150..300"
[[subscriber]]
name    = "flaky"
limit   = { rate = "2000/s", burst = 1000, in_flight = 100 }
timeout = "2s"
retry   = { base = "1s", cap = "2s", attempts = 4 }
[[subscriber.behaviour]]
attempts = "1..2"
answer   = 500
[[subscriber]]
name    = "lonely"
events  = ["other.*"]
limit   = { rate = "100/s", burst = 100, in_flight = 10 }
timeout = "2s"
retry   = { backoff = "equal-jitter", base = "400ms", cap = "800ms", attempts = 6 }
[[subscriber.behaviour]]
attempts = "1..4"
answer   = 500
"#;

const RECOVERY: &str = r#"
name  = "recovery"
drain = "15s"
[[traffic]]
shape = "steady"
rate  = "20/s"
lasts = "4s"
[events]
data_bytes = "150..300"
[[subscriber]]
name    = "recovering"
limit   = { rate = "25/s", burst = 5, in_flight = 5 }
timeout = "2s"
retry   = { base = "100ms", cap = "400ms", attempts = 20 }
[[subscriber.behaviour]]
at     = "500ms"
lasts  = "1500ms"
answer = 503
retry_after = "1s"
"#;

const QUEUE: &str = r#"
name  = "queue"
drain = "12s"
[[traffic]]
shape = "burst"
events = 100
[[traffic]]
shape = "pause"
lasts = "3s"
[events]
data_bytes = "150..300"
[expect]
queue_rows_max = 150
[[subscriber]]
name    = "full"
limit   = { rate = "10/s", burst = 2, in_flight = 2 }
queue   = { rows = 30 }
timeout = "2s"
[[subscriber]]
name    = "stale"
limit   = { rate = "10/s", burst = 2, in_flight = 2 }
queue   = { rows = 1000 }
retry   = { ttl = "2s" }
timeout = "2s"
"#;

const ISOLATION: &str = r#"
name  = "isolation"
drain = "12s"
[[traffic]]
shape = "steady"
rate  = "20/s"
lasts = "6s"
[events]
data_bytes = "150..300"
[expect]
gap_max = "1s"
[[subscriber]]
name    = "healthy"
limit   = { rate = "100/s", burst = 20, in_flight = 10 }
timeout = "3s"
[[subscriber]]
name    = "hung"
count   = 4
limit   = { rate = "100/s", burst = 20, in_flight = 5 }
timeout = "3s"
retry   = { base = "50ms", cap = "100ms", attempts = 1 }
[[subscriber.behaviour]]
at     = "1s"
lasts  = "5s"
answer = "blackhole"
"#;

const CRASH: &str = r#"
name  = "crash"
drain = "20s"
[[traffic]]
shape = "steady"
rate  = "40/s"
lasts = "4s"
[events]
data_bytes = "150..300"
[sender]
takeover_within = "5s"
[[subscriber]]
name    = "steady"
limit   = { rate = "25/s", burst = 20, in_flight = 10 }
timeout = "2s"
answers = "1ms..10ms"
[[subscriber]]
name    = "quick"
limit   = { rate = "500/s", burst = 100, in_flight = 50 }
timeout = "2s"
answers = "1ms..5ms"
[[fault]]
at    = "2s"
do    = "kill"
lasts = "200ms"
"#;

const WORKERS: &str = r#"
name  = "workers"
drain = "20s"
[[traffic]]
shape = "burst"
events = 60
[[traffic]]
shape = "pause"
lasts = "2s"
[events]
data_bytes = "150..300"
[sender]
workers = 2
[[subscriber]]
name    = "shared"
limit   = { rate = "20/s", burst = 5, in_flight = 5 }
timeout = "2s"
"#;
