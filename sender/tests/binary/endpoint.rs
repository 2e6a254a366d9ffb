use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use serde_json::Value;

use super::FOREVER;

#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    /// In nanoseconds since the endpoint started.
    pub(crate) at: u64,
    /// With names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Arrival {
    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        &found.unwrap_or_else(|| panic!("no {name} in {:?}", self.headers)).1
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn event(&self) -> String {
        self.json()["id"].as_str().unwrap().to_owned()
    }
}

/// Answers the nth request, from 0.
type Script = dyn Fn(usize, &mut TcpStream) -> std::io::Result<()> + Send + Sync;

#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

struct Shared {
    began: Instant,
    arrivals: Mutex<Vec<Arrival>>,
    changed: Condvar,
    script: Box<Script>,
}

impl Endpoint {
    pub(crate) fn taking() -> Self {
        Self::answering(|_| "204 No Content\r\n".to_owned())
    }

    /// `answer` gives the status and the headers, each with its line's end.
    pub(crate) fn answering(answer: impl Fn(usize) -> String + Send + Sync + 'static) -> Self {
        Self::scripted(move |number, stream| {
            write!(stream, "HTTP/1.1 {}content-length: 0\r\n\r\n", answer(number))
        })
    }

    #[expect(clippy::disallowed_methods, reason = "the test's one clock")]
    pub(crate) fn scripted(
        script: impl Fn(usize, &mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let (arrivals, changed) = (Mutex::default(), Condvar::new());
        let shared = Shared { began: Instant::now(), arrivals, changed, script: Box::new(script) };
        let shared = Arc::new(shared);
        let ours = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = Arc::clone(&ours);
                std::thread::spawn(move || drop(shared.serve(stream.unwrap())));
            }
        });
        Self { url, shared }
    }

    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        self.shared.arrivals.lock().unwrap().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.shared.arrivals.lock().unwrap().len()
    }

    #[track_caller]
    pub(crate) fn wait_for(&self, count: usize) -> Vec<Arrival> {
        self.wait_until(&format!("{count} arrivals"), |arrivals| arrivals.len() >= count)
    }

    #[track_caller]
    pub(crate) fn wait_for_events(&self, events: &[String]) {
        self.wait_until("all events", |arrivals| {
            let came: std::collections::BTreeSet<String> = arrivals.iter().map(Arrival::event).collect();
            events.iter().all(|event| came.contains(event))
        });
    }

    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, enough: impl Fn(&[Arrival]) -> bool) -> Vec<Arrival> {
        let arrivals = self.shared.arrivals.lock().unwrap();
        let waited = self.shared.changed.wait_timeout_while(arrivals, FOREVER, |arrivals| !enough(arrivals));
        let (arrivals, timeout) = waited.unwrap();
        assert!(!timeout.timed_out(), "{what} never came; {} did", arrivals.len());
        arrivals.clone()
    }
}

impl Shared {
    #[expect(clippy::disallowed_methods, reason = "the test's one clock")]
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap()
    }

    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        loop {
            let (mut line, mut headers, mut length) = (String::new(), vec![], 0);
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            loop {
                line.clear();
                reader.read_line(&mut line)?;
                let Some((name, value)) = line.trim_end().split_once(": ") else { break };
                let name = name.to_ascii_lowercase();
                if name == "content-length" {
                    length = value.parse().unwrap();
                }
                headers.push((name, value.to_owned()));
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body)?;
            let mut arrivals = self.arrivals.lock().unwrap();
            let number = arrivals.len();
            arrivals.push(Arrival { at: self.now(), headers, body });
            drop(arrivals);
            self.changed.notify_all();
            (self.script)(number, reader.get_mut())?;
        }
    }
}
