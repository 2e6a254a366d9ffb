//! Emits without end over the HTTP API, and remembers what was acknowledged.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::sink::Sink;

/// So many events may be acknowledged that have not arrived.
const AHEAD: usize = 100;

pub(crate) struct Emitter {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<String>>,
}

impl Emitter {
    /// Each event is owed to so many subscribers.
    pub(crate) fn start(address: SocketAddr, sink: Arc<Sink>, subscribers: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut acknowledged = vec![];
            while !asked.load(Ordering::Relaxed) {
                // No sender is there, or it was killed before it answered: what it had is not acknowledged.
                let _ = emit(address, (&sink, subscribers), &asked, &mut acknowledged);
                std::thread::yield_now();
            }
            acknowledged
        });
        Self { stop, thread }
    }

    /// The ids of all events that were acknowledged.
    pub(crate) fn stop(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn emit(
    address: SocketAddr,
    (sink, subscribers): (&Sink, usize),
    stop: &AtomicBool,
    acknowledged: &mut Vec<String>,
) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    while !stop.load(Ordering::Relaxed) {
        // As much as the contract lets out, so that the backlog stays short.
        sink.wait_for(acknowledged.len().saturating_sub(AHEAD) * subscribers);
        let body = r#"{"type": "video.trending", "key": "v1", "data": {"views": 1200000}}"#;
        let head = "POST /v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
        write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len())?;
        let (mut status, mut line, mut length) = (String::new(), String::from("-"), 0);
        if reader.read_line(&mut status)? == 0 {
            return Ok(());
        }
        while line.trim_end() != "" {
            line.clear();
            reader.read_line(&mut line)?;
            if let Some(("content-length", value)) = line.trim_end().to_ascii_lowercase().split_once(": ") {
                length = value.parse().unwrap();
            }
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer)?;
        // Refused for good, and asked again without end: nothing would ever arrive.
        assert!(!status.contains(" 40"), "{status}{}", String::from_utf8_lossy(&answer));
        if status.contains(" 202 ") {
            let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
            acknowledged.push(answer["id"].as_str().unwrap().to_owned());
        }
    }
    Ok(())
}
