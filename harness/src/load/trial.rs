use std::collections::BTreeMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use hdrhistogram::Histogram;
use hookproof_judge::scenario::quantity::rfc3339;
use hookproof_judge::signature::{Profile, Secret, Signing, sign};
use tokio::io::{AsyncRead as _, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep_until, timeout};

use crate::wire::answer::{Progress, read};
use crate::wire::clock::{Watch, unix_nanos, unix_seconds};
use crate::wire::exchange::{Stream, connect};
use crate::wire::request::{Framing, Request, Target};

/// The most open requests; further due requests are missed.
pub(super) const OPEN_MAX: usize = 1_000;
const IDLE_MAX: usize = OPEN_MAX;
const ANSWER_LIMIT: Duration = Duration::from_secs(15);
/// A larger lag means that the generator is the limit.
const LAG_BUDGET: Duration = Duration::from_millis(50);
/// The schedule is in memory.
pub const REQUESTS_MAX: u64 = 10_000_000;

#[derive(Clone, Debug)]
pub struct Load {
    pub target: Target,
    pub profile: Profile,
    pub secret: Secret,
    /// Requests in each `per`.
    pub count: u64,
    pub per: Duration,
    pub lasts: Duration,
    pub body_bytes: usize,
}

impl Load {
    /// Those beyond [`REQUESTS_MAX`] are not sent.
    #[must_use]
    pub fn requests(&self) -> u64 {
        let total = self.lasts.as_nanos().saturating_mul(u128::from(self.count)) / self.per.as_nanos().max(1);
        u64::try_from(total).unwrap_or(u64::MAX)
    }

    /// Evenly spaced.
    #[must_use]
    pub fn schedule(&self) -> Vec<Duration> {
        let (count, per) = (u128::from(self.count.max(1)), self.per.as_nanos());
        let moment = |at: u64| {
            let nanos = u128::from(at) * per / count;
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        };
        (0..self.requests().min(REQUESTS_MAX)).map(moment).collect()
    }

    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    pub fn per_second(&self) -> f64 {
        self.count as f64 / self.per.as_secs_f64()
    }
}

/// The result of a trial. Latencies are in microseconds from the intended moment.
#[derive(Clone, Debug)]
pub struct Trial {
    pub per_second: f64,
    /// Scheduled requests.
    pub due: u64,
    /// Requests that were not sent, since too many were open.
    pub missed: u64,
    pub statuses: BTreeMap<u16, u64>,
    pub unanswered: BTreeMap<String, u64>,
    pub latency: Histogram<u64>,
    /// The lag of requests when they were ready to be written, without the time to connect.
    pub lag: Histogram<u64>,
    pub took: Duration,
}

impl Trial {
    #[must_use]
    pub fn failed(&self) -> u64 {
        let other = self.statuses.iter().filter(|(status, _)| !(200..300).contains(*status));
        self.unanswered.values().sum::<u64>() + other.map(|(_, count)| count).sum::<u64>()
    }

    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.statuses.range(200..300).map(|(_, count)| count).sum()
    }

    /// Whether requests were missed although the receiver answered all others: the limit of open requests was
    /// reached, and the receiver's own limit was not seen.
    #[must_use]
    pub fn is_open_limited(&self) -> bool {
        self.missed > 0 && self.failed() == 0
    }

    /// The figures then say nothing of the receiver.
    #[must_use]
    pub fn is_generator_limited(&self) -> bool {
        self.lag.value_at_quantile(0.99) > u64::try_from(LAG_BUDGET.as_micros()).unwrap_or(u64::MAX)
    }
}

struct Tally {
    trial: Trial,
    idle: Vec<Box<dyn Stream>>,
}

struct Shared {
    load: Load,
    addresses: Vec<SocketAddr>,
    run: u128,
    tally: Mutex<Tally>,
}

/// Ends with `stop`, too.
pub async fn run(load: &Load, stop: impl Future<Output = ()>) -> std::io::Result<Trial> {
    let addresses = load.target.resolve().await?;
    // Reachability is checked before the clock starts.
    let first = timeout(ANSWER_LIMIT, connect(&load.target, &addresses)).await.map_err(|_| {
        let why = format!("no connection within {} s", ANSWER_LIMIT.as_secs());
        std::io::Error::new(std::io::ErrorKind::TimedOut, why)
    })??;
    let schedule = load.schedule();
    let trial = Trial {
        per_second: load.per_second(),
        due: schedule.len() as u64,
        missed: 0,
        statuses: BTreeMap::new(),
        unanswered: BTreeMap::new(),
        latency: histogram()?,
        lag: histogram()?,
        took: Duration::ZERO,
    };
    let tally = Mutex::new(Tally { trial, idle: vec![first] });
    let shared = Arc::new(Shared { load: load.clone(), addresses, run: unix_nanos(), tally });
    let watch = Watch::start();
    let mut released = 0;
    tokio::select! {
        () = release(&shared, watch, schedule, &mut released) => {}
        () = stop => shared.tally().trial.due = released,
    }
    let mut trial = shared.tally().trial.clone();
    trial.took = watch.passed();
    Ok(trial)
}

/// Releases each request at its due time, and waits for all answers. `released` counts along.
#[expect(clippy::disallowed_methods, reason = "requests are released at the moments of the schedule")]
async fn release(shared: &Arc<Shared>, watch: Watch, schedule: Vec<Duration>, released: &mut u64) {
    let room = Arc::new(Semaphore::new(OPEN_MAX));
    let mut open = JoinSet::new();
    for (number, due) in schedule.into_iter().enumerate() {
        if due > watch.passed() {
            sleep_until(watch.moment(due)).await;
        }
        *released += 1;
        while let Some(done) = open.try_join_next() {
            shared.count_failed_task(done);
        }
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
            shared.tally().trial.missed += 1;
            // A schedule that is always late can then be stopped.
            tokio::task::yield_now().await;
            continue;
        };
        let shared = Arc::clone(shared);
        open.spawn(async move {
            let sent = timeout(ANSWER_LIMIT, shared.send(number, due, watch)).await;
            let status = sent.unwrap_or_else(|_| Err(format!("silence for {} s", ANSWER_LIMIT.as_secs())));
            let latency = watch.passed().saturating_sub(due);
            let mut tally = shared.tally();
            match status {
                Ok(status) => {
                    *tally.trial.statuses.entry(status).or_default() += 1;
                    record(&mut tally.trial.latency, latency);
                }
                Err(why) => *tally.trial.unanswered.entry(why).or_default() += 1,
            }
            drop(permit);
        });
    }
    while let Some(done) = open.join_next().await {
        shared.count_failed_task(done);
    }
}

impl Shared {
    fn tally(&self) -> std::sync::MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count_failed_task(&self, done: Result<(), JoinError>) {
        if done.is_err() {
            *self.tally().trial.unanswered.entry("the generator failed".to_owned()).or_default() += 1;
        }
    }

    /// Returns the status, or the reason why there is none.
    async fn send(&self, number: usize, due: Duration, watch: Watch) -> Result<u16, String> {
        let bytes = self.request(number).bytes();
        // The rest is connecting, which is the receiver's time, and writing.
        record(&mut self.tally().trial.lag, watch.passed().saturating_sub(due));
        let stream = match self.idle_connection().await {
            Some(stream) => stream,
            None => connect(&self.load.target, &self.addresses)
                .await
                .map_err(|error| format!("no connection: {error}"))?,
        };
        self.exchange(stream, &bytes).await
    }

    /// Checked before the write: a request that fails later may have been read, and a repetition would falsify the
    /// figures.
    async fn idle_connection(&self) -> Option<Box<dyn Stream>> {
        loop {
            let mut stream = self.tally().idle.pop()?;
            if is_quiet(&mut stream).await {
                return Some(stream);
            }
        }
    }

    async fn exchange(&self, mut stream: Box<dyn Stream>, bytes: &[u8]) -> Result<u16, String> {
        let lost = |_| "the connection was lost".to_owned();
        stream.write_all(bytes).await.map_err(lost)?;
        stream.flush().await.map_err(lost)?;
        let mut buffer = Vec::with_capacity(512);
        loop {
            let ended = stream.read_buf(&mut buffer).await.map_err(lost)? == 0;
            match read(&buffer, ended) {
                Progress::Whole(answer, _) => {
                    let mut tally = self.tally();
                    if answer.keeps_open && !ended && tally.idle.len() < IDLE_MAX {
                        tally.idle.push(stream);
                    }
                    return Ok(answer.status);
                }
                Progress::Partial if !ended => {}
                Progress::Partial => return Err("closed without an answer".to_owned()),
                Progress::Malformed(why) => return Err(format!("not HTTP: {why}")),
            }
        }
    }

    fn request(&self, number: usize) -> Request {
        let Load { target, profile, secret, body_bytes, .. } = &self.load;
        let timestamp = profile.in_unit(unix_seconds()).to_string();
        let (id, url) = (format!("load_{:x}_{number}", self.run), target.signed_url());
        let stamp =
            profile.timestamp_field().map_or(String::new(), |name| format!(r#""{name}":{timestamp},"#));
        let (method, event_type) = ("POST", "video.trending");
        let date = rfc3339(unix_seconds().unsigned_abs());
        let with = |data: &str| {
            let own = profile.filled(&id, event_type, &date, data);
            own.unwrap_or_else(|| format!(r#"{{"id":"{id}",{stamp}"type":"{event_type}","data":{data}}}"#))
        };
        let filler = "x".repeat(body_bytes.saturating_sub(with("\"\"").len()));
        let body = with(&format!("\"{filler}\"")).into_bytes();
        let signing = Signing {
            id: &id,
            timestamp: &timestamp,
            event_type,
            date: &date,
            method,
            url: &url,
            body: &body,
            is_form: false,
        };
        let mut headers = vec![
            ("Host".to_owned(), target.host_header.clone().into_bytes()),
            ("User-Agent".to_owned(), b"hookproof".to_vec()),
            ("Content-Type".to_owned(), b"application/json".to_vec()),
        ];
        let signed = sign(*profile, &[secret], &signing);
        headers.extend(signed.into_iter().map(|(name, value)| (name, value.into_bytes())));
        let path = profile.addressed(&target.path, &body, false).into_owned();
        Request { method: "POST", path, headers, body, framing: Framing::Length }
    }
}

/// Whether a connection has received neither bytes nor its end.
async fn is_quiet(stream: &mut Box<dyn Stream>) -> bool {
    let mut byte = [0];
    poll_fn(|context| {
        let read = Pin::new(&mut *stream).poll_read(context, &mut ReadBuf::new(&mut byte));
        Poll::Ready(read.is_pending())
    })
    .await
}

/// From a microsecond to a minute, with three digits.
fn histogram() -> std::io::Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, 60_000_000, 3).map_err(std::io::Error::other)
}

fn record(histogram: &mut Histogram<u64>, length: Duration) {
    histogram.saturating_record(u64::try_from(length.as_micros()).unwrap_or(u64::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(count: u64, per: Duration, lasts: Duration) -> Load {
        let profile = Profile::GITHUB;
        Load {
            target: Target::parse("http://127.0.0.1:9/").unwrap(),
            profile,
            secret: Secret::parse(profile, "a secret of the tests").unwrap(),
            count,
            per,
            lasts,
            body_bytes: 300,
        }
    }

    #[test]
    fn a_schedule_is_even_and_ends_with_its_time() {
        let schedule = load(4, Duration::from_secs(1), Duration::from_secs(2)).schedule();
        let expected: Vec<_> = (0..8).map(|at| Duration::from_millis(at * 250)).collect();
        assert_eq!(schedule, expected);
        assert_eq!(load(90, Duration::from_secs(60), Duration::from_secs(10)).schedule().len(), 15);
    }
}
