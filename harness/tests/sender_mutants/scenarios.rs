use crate::sender_mutants::matrix::Stage;

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

pub(crate) const BUGS: [Bug; 85] = [
    bug(
        "charges-on-send",
        "charges its bucket when it sends, not when it is over",
        "rate.envelope",
        "limits",
    ),
    bug("does-not-clamp-its-bucket", "saves up unused sends during a rest", "rate.after-idle", "limits"),
    bug(
        "speaks-http-2-only+does-not-clamp-its-bucket",
        "the same on streams of HTTP/2",
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
        "a rate without a cap on open requests (S3)",
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
    bug(
        "ignores-its-lease",
        "goes on when it is continued, though another worker has taken its lanes over",
        "rate.across-workers",
        "lease",
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
    bug("follows-redirects", "sends the body to any target of a redirect", "retry.status", "answers"),
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
        "signs-with-every-secret",
        "every subscriber's secret signs every delivery",
        "identity.secret",
        "limits",
    ),
    bug(
        "asks-for-no-permission",
        "sends to an endpoint that has permitted nothing",
        "permission.asked",
        "permission",
    ),
    bug(
        "takes-any-answer-for-permission",
        "takes 204 to OPTIONS for consent",
        "permission.asked",
        "permission",
    ),
    bug("hides-its-origin", "asks, and names no origin in its requests", "permission.asked", "permission"),
    bug("shows-its-secret", "sends the secret beside the signature", "identity.secret", "limits"),
    bug(
        "signs-the-body-alone",
        "leaves id and timestamp out of the signature",
        "format.signature",
        "answers",
    ),
    bug("stamps-in-milliseconds", "timestamps a thousand times too large", "format.timestamp", "answers"),
    bug("names-no-content-type", "no content type", "format.post-json", "answers"),
    bug("names-no-host", "writes HTTP/1.1 without Host", "format.http", "limits"),
    bug("says-its-length-twice", "sends Content-Length beside Transfer-Encoding", "format.http", "limits"),
    bug("writes-long-ids-with-blanks", "an id of 9 kB with blanks", "format.id", "limits"),
    bug(
        "storms-on-recovery",
        "lets the whole backlog go when a pause is over (S3)",
        "recovery.no-storm",
        "recovery",
    ),
    bug("has-one-pool-for-all", "hung endpoints take all workers", "isolation.gap", "isolation"),
    bug("has-no-bound", "a queue without a bound (S3)", "queue.bounded", "queue"),
    bug("sheds-in-silence", "deliveries that do not fit are gone without a trace", "loss.none", "queue"),
    bug("never-expires", "sends deliveries older than agreed", "queue.expires", "queue"),
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
    bug(
        "reads-numbers-as-floats",
        "parses the data and writes it anew: whole numbers beyond 2^53 lose digits",
        "payload.intact",
        "answers",
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
        "forgets its work in the second before a kill",
        "duplicate.bounded",
        "crash",
    ),
    bug(
        "sends-to-whom-it-does-not-concern",
        "ignores the subscribers' patterns",
        "loss.unexpected",
        "answers",
    ),
    bug("never-opens-its-breaker", "goes on asking an endpoint that fails", "breaker.opens", "breaker"),
    bug(
        "probes-with-all-it-has",
        "asks with every delivery whether an endpoint is back",
        "breaker.one-probe",
        "breaker",
    ),
    bug(
        "does-not-lengthen-its-cooldown",
        "asks as often after the tenth failed probe as after the first",
        "breaker.cooldown",
        "breaker",
    ),
    bug("walks-out-of-what-is-open", "ends at once when it is asked to stop", "crash.stop", "stop"),
    bug("rests-long-after-a-restart", "waits for a lease that nobody holds", "crash.takeover", "crash"),
    bug("rests-after-a-restart", "waits before it takes up its work again", "recovery.gap", "crash"),
    bug("takes-an-event-twice", "knows no event by its id", "duplicate.dedupe", "orderly"),
    bug("sends-the-newest-first", "takes from the wrong end of the queue", "order.per-key", "orderly"),
    bug("forgets-nothing-that-it-delivered", "keeps each delivery for ever", "queue.retention", "orderly"),
    bug("polls-for-work", "looks for work from time to time", "latency.first-attempt", "orderly"),
    bug(
        "changes-its-content-type-for-a-retry",
        "a retry goes by another way, which has headers of its own",
        "identity.headers",
        "answers",
    ),
    bug(
        "turns-one-away-without-a-word",
        "answers 400 to an event that it has no room for",
        "queue.visible",
        "answers",
    ),
    bug(
        "looks-through-all-that-is-open",
        "each hung request makes every other a little later",
        "isolation.latency",
        "isolation",
    ),
    bug("keeps-what-it-is-answered", "keeps the body of each answer", "network.huge-answer", "huge"),
    bug("keeps-a-megabyte-for-each-event", "lets nothing go that it once had", "queue.memory", "queue"),
    bug(
        "takes-a-refusal-for-success",
        "a connection that was refused counts as delivered",
        "network.refused",
        "network",
    ),
    bug("takes-any-certificate", "looks at no certificate", "tls.verified", "certificates"),
    bug(
        "takes-a-close-for-success",
        "a connection that was closed counts as delivered",
        "network.stale",
        "network",
    ),
    bug(
        "stops-at-nonsense",
        "waits an hour where Retry-After is no time at all",
        "retry.after-hostile",
        "network",
    ),
    bug("loops-at-zero", "takes Retry-After: 0 at its word", "retry.after-zero", "network"),
    bug(
        "ignores-a-changed-limit",
        "goes on by the limit that it was started with",
        "rate.live-change",
        "changed",
    ),
    bug("dies-of-a-full-disk", "ends where it can write nothing", "fault.disk-full", "storage"),
    bug("dies-of-a-lock", "ends where somebody else holds its database", "fault.locked", "storage"),
    bug(
        "delivers-what-it-should-replace",
        "sends each event of a key, where the newest is enough",
        "coalesce.window",
        "coalesced",
    ),
    bug(
        "does-one-thing-at-a-time",
        "takes a turn for each attempt, all lanes together",
        "efficiency",
        "quick",
    ),
    bug("uses-half-of-its-rate", "refills its bucket half as fast as it may", "rate.utilisation", "busy"),
    bug("leaves-a-tenth-behind", "never wakes for some waiting deliveries", "recovery.drains", "busy"),
    bug(
        "sleeps-through-a-wake-up",
        "forgets once to wake a lane that has nothing else to do",
        "liveness.served",
        "sparse",
    ),
];

pub(crate) const ALONE: [&str; 29] = [
    "counts-by-the-calendar",
    "pauses-one-delivery-only",
    "rebuilds-the-body-for-a-retry",
    "changes-its-content-type-for-a-retry",
    "stamps-in-milliseconds",
    "names-no-content-type",
    "reads-numbers-as-floats",
    "names-no-host",
    "says-its-length-twice",
    "writes-long-ids-with-blanks",
    "signs-with-every-secret",
    "shows-its-secret",
    "takes-any-certificate",
    "forgets-the-path",
    "never-expires",
    "filters-by-its-own-rules",
    "matches-nobody",
    "hands-one-secret-to-all",
    "panics-at-its-end",
    "walks-out-of-what-is-open",
    "does-not-lengthen-its-cooldown",
    "sends-the-newest-first",
    "forgets-nothing-that-it-delivered",
    "turns-one-away-without-a-word",
    "keeps-a-megabyte-for-each-event",
    "loops-at-zero",
    "leaves-a-tenth-behind",
    "makes-one-attempt-too-many",
    "ignores-410",
];

pub(crate) const SCENARIOS: [Stage; 22] = [
    Stage { name: "limits", text: LIMITS, thin: &["isolation.latency"] },
    Stage { name: "answers", text: ANSWERS, thin: &["isolation.latency"] },
    Stage { name: "backoff", text: BACKOFF, thin: &[] },
    Stage { name: "recovery", text: RECOVERY, thin: &[] },
    Stage { name: "queue", text: QUEUE, thin: &["rate.after-idle"] },
    Stage { name: "isolation", text: ISOLATION, thin: &["rate.retries-count"] },
    Stage { name: "crash", text: CRASH, thin: &[] },
    Stage { name: "workers", text: WORKERS, thin: &["rate.after-idle"] },
    Stage { name: "lease", text: LEASE, thin: &[] },
    Stage { name: "breaker", text: BREAKER, thin: &[] },
    Stage { name: "stop", text: STOP, thin: &[] },
    Stage { name: "orderly", text: ORDERLY, thin: &[] },
    Stage { name: "network", text: NETWORK, thin: &[] },
    Stage { name: "huge", text: HUGE, thin: &["rate.after-idle"] },
    Stage { name: "changed", text: CHANGED, thin: &[] },
    Stage { name: "busy", text: BUSY, thin: &[] },
    Stage { name: "storage", text: STORAGE, thin: &[] },
    Stage { name: "coalesced", text: COALESCED, thin: &[] },
    Stage { name: "quick", text: QUICK, thin: &[] },
    Stage { name: "sparse", text: SPARSE, thin: &[] },
    Stage { name: "certificates", text: CERTIFICATES, thin: &[] },
    Stage { name: "permission", text: PERMISSION, thin: &[] },
];

const LIMITS: &str = include_str!("played/limits.toml");
const ANSWERS: &str = include_str!("played/answers.toml");
const BACKOFF: &str = include_str!("played/backoff.toml");
const RECOVERY: &str = include_str!("played/recovery.toml");
const QUEUE: &str = include_str!("played/queue.toml");
const ISOLATION: &str = include_str!("played/isolation.toml");
const CRASH: &str = include_str!("played/crash.toml");
const WORKERS: &str = include_str!("played/workers.toml");
const LEASE: &str = include_str!("played/lease.toml");
const BREAKER: &str = include_str!("played/breaker.toml");
const STOP: &str = include_str!("played/stop.toml");
const ORDERLY: &str = include_str!("played/orderly.toml");
const NETWORK: &str = include_str!("played/network.toml");
const HUGE: &str = include_str!("played/huge.toml");
const CHANGED: &str = include_str!("played/changed.toml");
const BUSY: &str = include_str!("played/busy.toml");
const STORAGE: &str = include_str!("played/storage.toml");
const COALESCED: &str = include_str!("played/coalesced.toml");
const QUICK: &str = include_str!("played/quick.toml");
const SPARSE: &str = include_str!("played/sparse.toml");
const PERMISSION: &str = include_str!("played/permission.toml");
const CERTIFICATES: &str = include_str!("played/certificates.toml");
