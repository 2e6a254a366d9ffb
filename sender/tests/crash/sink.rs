//! Refuses some requests by a hash of delivery and attempt: a count over all lanes would refuse the same lane
//! repeatedly until its breaker opens.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const REFUSED_ONE_IN: u64 = 7;

/// Longer than any lease, quarantine or doubt.
const SILENCE_MAX: Duration = Duration::from_secs(180);

#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    /// In nanoseconds since the sink started.
    pub(crate) at: u64,
    pub(crate) path: String,
    pub(crate) delivery: String,
    /// By how many seconds the signer's clock is ahead of the machine's.
    pub(crate) ahead: i64,
    pub(crate) event: String,
    pub(crate) body: Vec<u8>,
    /// Answered 204. Otherwise the sender retries.
    pub(crate) taken: bool,
}

impl Arrival {
    #[cfg(test)]
    pub(crate) fn at(at: u64) -> Self {
        Self {
            at,
            path: String::new(),
            delivery: String::new(),
            ahead: 0,
            event: String::new(),
            body: vec![],
            taken: true,
        }
    }
}

/// `attempt` counts from 1.
fn is_refused(delivery: &str, attempt: u32) -> bool {
    let mut hasher = DefaultHasher::new();
    (delivery, attempt).hash(&mut hasher);
    hasher.finish().is_multiple_of(REFUSED_ONE_IN)
}

pub(crate) struct Sink {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    began: Instant,
    refuses: bool,
    holds: Mutex<bool>,
    let_go: Condvar,
    arrivals: Mutex<Vec<Arrival>>,
    attempts: Mutex<BTreeMap<String, u32>>,
    changed: Condvar,
    lanes: Mutex<Option<Box<dyn Fn() -> String + Send>>>,
}

impl Shared {
    #[expect(clippy::disallowed_methods, reason = "the test's one clock")]
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap()
    }

    fn attempt(&self, delivery: &str) -> u32 {
        let mut attempts = self.attempts.lock().unwrap();
        let attempt = attempts.entry(delivery.to_owned()).or_default();
        *attempt += 1;
        *attempt
    }
}

impl Sink {
    pub(crate) fn start() -> Self {
        Self::start_as(true)
    }

    pub(crate) fn willing() -> Self {
        Self::start_as(false)
    }

    #[expect(clippy::disallowed_methods, reason = "the test's one clock")]
    fn start_as(refuses: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            began: Instant::now(),
            refuses,
            holds: Mutex::default(),
            let_go: Condvar::new(),
            arrivals: Mutex::default(),
            attempts: Mutex::default(),
            changed: Condvar::new(),
            lanes: Mutex::default(),
        });
        let ours = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = Arc::clone(&ours);
                std::thread::spawn(move || drop(serve(&stream.unwrap(), &shared)));
            }
        });
        Self { address, shared }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    pub(crate) fn now(&self) -> u64 {
        self.shared.now()
    }

    pub(crate) fn explain_by(&self, lanes: impl Fn() -> String + Send + 'static) {
        *self.shared.lanes.lock().unwrap() = Some(Box::new(lanes));
    }

    fn give_up(&self, why: &str) -> ! {
        let lanes = self.shared.lanes.lock().unwrap().as_ref().map(|lanes| lanes());
        panic!("{why}; {}", lanes.unwrap_or_else(|| "nobody tells of the lanes".to_owned()));
    }

    /// `true` stops all answers; `false` releases the held requests and later ones.
    pub(crate) fn hold(&self, holds: bool) {
        *self.shared.holds.lock().unwrap() = holds;
        self.shared.let_go.notify_all();
    }

    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        self.shared.arrivals.lock().unwrap().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.shared.arrivals.lock().unwrap().len()
    }

    pub(crate) fn wait_for(&self, count: usize) {
        self.wait_until(|arrivals| arrivals.len() >= count);
    }

    fn wait_until(&self, enough: impl Fn(&[Arrival]) -> bool) {
        let mut arrivals = self.shared.arrivals.lock().unwrap();
        while !enough(&arrivals) {
            let seen = arrivals.len();
            let none_new = |arrivals: &mut Vec<Arrival>| arrivals.len() <= seen;
            let (more, waited) =
                self.shared.changed.wait_timeout_while(arrivals, SILENCE_MAX, none_new).unwrap();
            if waited.timed_out() {
                drop(more);
                self.give_up(&format!("nothing has come for {SILENCE_MAX:?} after {seen} arrivals"));
            }
            arrivals = more;
        }
    }

    pub(crate) fn wait_for_time(&self, time: u64, paths: usize) {
        self.wait_until(|arrivals| {
            let after = arrivals.iter().rev().take_while(|arrival| arrival.at > time);
            after.map(|arrival| arrival.path.as_str()).collect::<BTreeSet<_>>().len() == paths
        });
    }

    /// An event still missing long after the last arrival is lost.
    pub(crate) fn wait_for_events(&self, events: &[String]) {
        self.wait_for_taken(events.iter().cloned().collect(), |arrival| arrival.event.clone());
    }

    pub(crate) fn wait_for_taken(&self, mut missing: BTreeSet<String>, name: impl Fn(&Arrival) -> String) {
        let mut seen = 0;
        while !missing.is_empty() {
            let arrivals = self.shared.arrivals.lock().unwrap();
            let none_new = |arrivals: &mut Vec<Arrival>| arrivals.len() <= seen;
            let (arrivals, waited) =
                self.shared.changed.wait_timeout_while(arrivals, SILENCE_MAX, none_new).unwrap();
            if waited.timed_out() {
                drop(arrivals);
                self.give_up(&format!("{} are lost: {missing:?}", missing.len()));
            }
            let arrivals = arrivals.clone();
            for arrival in arrivals[seen..].iter().filter(|arrival| arrival.taken) {
                missing.remove(&name(arrival));
            }
            seen = arrivals.len();
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the machine's clock, beside which those of senders may be wrong"
)]
fn wall_seconds() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_secs()).unwrap()
}

fn serve(stream: &TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut line, mut delivery, mut length, mut ahead) = (String::new(), String::new(), 0, 0);
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        while line.trim_end() != "" {
            line.clear();
            reader.read_line(&mut line)?;
            match line.trim_end().to_ascii_lowercase().split_once(": ") {
                Some(("webhook-id", _)) => delivery = line["webhook-id: ".len()..].trim_end().to_owned(),
                Some(("webhook-timestamp", value)) => ahead = value.parse::<i64>().unwrap() - wall_seconds(),
                Some(("content-length", value)) => length = value.parse().unwrap(),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let event =
            serde_json::from_slice::<serde_json::Value>(&body).unwrap()["id"].as_str().unwrap().to_owned();
        let mut arrivals = shared.arrivals.lock().unwrap();
        let taken = !(shared.refuses && is_refused(&delivery, shared.attempt(&delivery)));
        arrivals.push(Arrival { at: shared.now(), path, delivery, ahead, event, body, taken });
        drop(arrivals);
        shared.changed.notify_all();
        drop(shared.let_go.wait_while(shared.holds.lock().unwrap(), |holds| *holds).unwrap());
        let mut stream = stream;
        let answer = if taken { "204 No Content" } else { "503 Service Unavailable\r\ncontent-length: 0" };
        // In parts, it would wait for the other side's delayed acknowledgement.
        stream.write_all(format!("HTTP/1.1 {answer}\r\n\r\n").as_bytes())?;
    }
}

/// 7 divides 42: a rule that refuses every seventh arrival would always meet the same lanes.
#[test]
fn lanes_in_lockstep_are_refused_a_seventh_each_and_none_ten_times_in_a_row() {
    const ROUNDS: usize = 2_000;
    let shared = Sink::start().shared;
    let mut lanes = vec![(0_u32, 0_usize, 0_usize); 42];
    for _ in 0..ROUNDS {
        for (lane, (delivery, in_a_row, refused)) in lanes.iter_mut().enumerate() {
            let name = format!("lane {lane} delivery {delivery}");
            if is_refused(&name, shared.attempt(&name)) {
                (*in_a_row, *refused) = (*in_a_row + 1, *refused + 1);
                assert!(*in_a_row < 10, "lane {lane} would have opened its breaker");
            } else {
                (*delivery, *in_a_row) = (*delivery + 1, 0);
            }
        }
    }
    for (_, _, refused) in lanes {
        assert!(refused.abs_diff(ROUNDS / 7) < ROUNDS / 20, "{refused} of {ROUNDS}");
    }
}

#[test]
fn a_test_that_waits_in_vain_says_how_each_lane_stands() {
    let sink = Sink::willing();
    let settings: Vec<String> = crate::crash::settings(10, 5);
    let database = crate::crash::process::Database::with_subscribers(&sink.url(), 2, &settings);
    sink.explain_by(database.lanes());
    database.run(&["subscriber", "pause", "sink-1"]);
    database.run(&["emit", "--type", "a", "--data", "1"]);
    let gave_up = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| sink.give_up("nothing came")));
    let told = *gave_up.unwrap_err().downcast::<String>().unwrap();
    for part in ["nothing came", "sink-0", "sink-1", "paused", "WAITING", "held up"] {
        assert!(told.contains(part), "{part}: {told}");
    }
}
