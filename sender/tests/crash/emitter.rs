use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use crate::crash::sink::Sink;

/// How many acknowledged events may be outstanding.
const AHEAD: usize = 100;

pub(crate) const TOKEN: &str = "a-token-for-emitters-alone";

pub(crate) struct Emitter {
    emitting: Arc<Emitting>,
    threads: Vec<JoinHandle<Vec<String>>>,
}

struct Emitting {
    sink: Arc<Sink>,
    subscribers: usize,
    stop: AtomicBool,
    acknowledged: AtomicUsize,
}

impl Emitter {
    pub(crate) fn start(address: SocketAddr, sink: Arc<Sink>, subscribers: usize) -> Self {
        Self::start_at(&[address], sink, subscribers)
    }

    pub(crate) fn start_at(addresses: &[SocketAddr], sink: Arc<Sink>, subscribers: usize) -> Self {
        let (stop, acknowledged) = (AtomicBool::new(false), AtomicUsize::new(0));
        let emitting = Arc::new(Emitting { sink, subscribers, stop, acknowledged });
        let start = |address: &SocketAddr| {
            let (emitting, address) = (Arc::clone(&emitting), *address);
            std::thread::spawn(move || {
                let mut acknowledged = vec![];
                while !emitting.stop.load(Ordering::Relaxed) {
                    // The event is not acknowledged.
                    let _ = emitting.emit(address, &mut acknowledged);
                    std::thread::yield_now();
                }
                acknowledged
            })
        };
        Self { threads: addresses.iter().map(start).collect(), emitting }
    }

    pub(crate) fn stop(self) -> Vec<String> {
        self.emitting.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    }
}

impl Emitting {
    fn emit(&self, address: SocketAddr, acknowledged: &mut Vec<String>) -> std::io::Result<()> {
        let mut stream = TcpStream::connect(address)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        while !self.stop.load(Ordering::Relaxed) {
            // No faster than the contract allows, so that the backlog stays short.
            let ahead = self.acknowledged.load(Ordering::Relaxed).saturating_sub(AHEAD);
            self.sink.wait_for(ahead * self.subscribers);
            let body = r#"{"type": "video.trending", "key": "v1", "data": {"views": 1200000}}"#;
            let head = "POST /v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
            let length = body.len();
            write!(stream, "{head}authorization: Bearer {TOKEN}\r\ncontent-length: {length}\r\n\r\n{body}")?;
            let (mut status, mut line, mut length) = (String::new(), String::from("-"), 0);
            if reader.read_line(&mut status)? == 0 {
                return Ok(());
            }
            while line.trim_end() != "" {
                line.clear();
                reader.read_line(&mut line)?;
                if let Some(("content-length", value)) = line.trim_end().to_ascii_lowercase().split_once(": ")
                {
                    length = value.parse().unwrap();
                }
            }
            let mut answer = vec![0; length];
            reader.read_exact(&mut answer)?;
            // A permanent refusal would repeat for ever.
            assert!(!status.contains(" 40"), "{status}{}", String::from_utf8_lossy(&answer));
            if status.contains(" 202 ") {
                let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
                acknowledged.push(answer["id"].as_str().unwrap().to_owned());
                self.acknowledged.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}
