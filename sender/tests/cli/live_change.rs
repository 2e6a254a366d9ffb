use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::cli::world::World;

fn endpoint() -> (String, Receiver<Instant>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (tell, arrivals) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let tell = tell.clone();
            std::thread::spawn(move || {
                let mut stream = BufReader::new(stream.unwrap());
                loop {
                    let (mut length, mut line) = (0, String::new());
                    while stream.read_line(&mut line).unwrap_or(0) > 2 {
                        let lower = line.to_ascii_lowercase();
                        if let Some(value) = lower.strip_prefix("content-length: ") {
                            length = value.trim().parse().unwrap();
                        }
                        line.clear();
                    }
                    let mut body = vec![0; length];
                    if length == 0 || stream.read_exact(&mut body).is_err() {
                        return;
                    }
                    #[expect(clippy::disallowed_methods, reason = "what arrives is judged by the time")]
                    let _ = tell.send(Instant::now());
                    if stream.get_mut().write_all(b"HTTP/1.1 204 x\r\ncontent-length: 0\r\n\r\n").is_err() {
                        return;
                    }
                }
            });
        }
    });
    (url, arrivals)
}

/// Whether arrivals fit a bucket with this rate and burst, for some initial level.
fn fits(arrivals: &[Instant], per_second: u128, burst: u128) -> bool {
    let nanos = 1_000_000_000;
    arrivals.iter().enumerate().all(|(first, begin)| {
        arrivals[first..].iter().zip(1_u128..).all(|(end, count)| {
            count * nanos <= burst * nanos + end.duration_since(*begin).as_nanos() * per_second
        })
    })
}

#[test]
fn a_lowered_limit_holds_at_the_endpoint_within_a_second_in_another_process() {
    let (url, arrivals) = endpoint();
    let (world, _) = World::with_shop(&url, &["limit.rate=200/s", "limit.burst=20", "limit.in_flight=20"]);
    let serving = world.serve();
    let batch: String = (0..4_000).map(|n| format!("{{\"type\":\"a\",\"data\":{n}}}\n")).collect();
    assert_eq!(world.feed(&["emit", "--ndjson", "-"], &batch).code, 0);
    let before: Vec<_> = arrivals.iter().take(100).collect();
    world.ok(&["subscriber", "set", "shop", "limit.rate=5/s", "limit.burst=2"]);
    #[expect(clippy::disallowed_methods, reason = "what arrives is judged by the time")]
    let holds_from = Instant::now() + Duration::from_secs(1);
    let after: Vec<_> = arrivals.iter().filter(|at| *at >= holds_from).take(12).collect();
    assert!(fits(&after, 5, 2), "{after:?}");
    assert!(!fits(&before, 5, 2), "the limit before was another, or this shows nothing");
    let (code, log) = serving.terminate();
    assert_eq!(code, 0, "{log}");
}
