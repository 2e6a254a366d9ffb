use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use super::{Ended, QUIET, start};

fn answer_to(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    // The server may close with a reset.
    let _cut = stream.read_to_string(&mut answer);
    answer
}

/// One browser leaves at once, one stops within its request, and many read no answer.
#[test]
fn a_run_is_shown_while_it_goes_on_and_browsers_that_stall_change_nothing() {
    let mut run = start("quiet", QUIET, &["--live", "--set", "traffic.0.lasts=6s"]);
    let mut said = BufReader::new(run.child.stderr.take().unwrap());
    let mut first = String::new();
    said.read_line(&mut first).unwrap();
    let address = first.trim().strip_prefix("live:  http://").and_then(|rest| rest.strip_suffix('/'));
    let address: SocketAddr = address.unwrap_or_else(|| panic!("{first}")).parse().unwrap();
    assert!(address.ip().is_loopback());
    let page = loop {
        let page = answer_to(address, "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
        if page.contains("Running, ") {
            break page;
        }
    };
    assert!(page.contains("quiet") && page.contains("requests that arrived"), "the page is drawn");
    let requests = ["", "GET / HTTP/1.1\r\nho", "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"];
    let stalled: Vec<TcpStream> = (0..30)
        .map(|at| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(requests[at % 3].as_bytes()).unwrap();
            stream
        })
        .collect();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    let (code, told, trace, reported) = run.end();
    drop(stalled);
    assert_eq!(code, Some(0), "{rest}{told}");
    let trailer = trace.unwrap().trailer.unwrap();
    assert_eq!((trailer.ended, trailer.dropped, trailer.offers), (Ended::Done, 0, 300));
    assert!(reported && told.contains("harness.schedule"), "{told}");
    assert!(rest.contains("s of 6 s: offered ") && rest.contains(", waiting "), "a line in a pipe: {rest}");
}

#[test]
fn a_page_is_served_to_this_machine_alone() {
    let (code, said, ..) = start("quiet", QUIET, &["--live=0.0.0.0:0"]).end();
    assert!(code == Some(64) && said.contains("expected a loopback address"), "{code:?}: {said}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("--live={}", taken.local_addr().unwrap());
    let (code, said, ..) = start("quiet", QUIET, &[&address]).end();
    assert!(code == Some(64) && said.contains("the page cannot be served"), "{code:?}: {said}");
}
