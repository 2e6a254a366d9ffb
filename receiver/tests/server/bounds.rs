use std::io::Write as _;
use std::net::SocketAddr;

use crate::wire::{answer, connect, head, request};
use crate::world::{World, signed};

#[track_caller]
fn check_serving(address: SocketAddr) {
    assert_eq!(
        request(address, "POST", "/", &signed("after", b"{}"), b"{}").status,
        204,
        "it serves no more"
    );
}

#[test]
fn bodies_up_to_the_bound_are_taken() {
    let receiver = World::new().serve(&[]);
    for bytes in [20_000, 1 << 20, 2 << 20] {
        let body = vec![b'x'; bytes];
        assert_eq!(receiver.post(&bytes.to_string(), &body).status, 204, "{bytes}");
    }
}

#[test]
fn a_body_that_is_too_long_is_refused_and_the_client_hears_of_it() {
    let receiver = World::new().serve(&["--body-max", "64KiB"]);
    let body = vec![b'x'; (64 << 10) + 1];
    assert_eq!(receiver.post("a", &body).status, 413);
    let mut stream = connect(receiver.address);
    let mut request = head("POST", "/", &signed("a", &body));
    request.extend(format!("transfer-encoding: chunked\r\n\r\n{:x}\r\n", body.len()).into_bytes());
    request.extend(&body);
    request.extend(b"\r\n0\r\n\r\n");
    stream.write_all(&request).unwrap();
    assert_eq!(answer(stream).unwrap().status, 413);
    check_serving(receiver.address);
}

#[test]
fn a_body_without_end_is_cut_off() {
    let receiver = World::new().serve(&[]);
    let mut stream = connect(receiver.address);
    let mut request = head("POST", "/", &signed("a", b""));
    request.extend(b"transfer-encoding: chunked\r\n\r\n");
    stream.write_all(&request).unwrap();
    let chunk = [b"10000\r\n", &[b'x'; 65_536][..], b"\r\n"].concat();
    let sent = (0..100_000).take_while(|_| stream.write_all(&chunk).is_ok()).count();
    assert!(sent < 100_000, "it reads without end");
    check_serving(receiver.address);
}

#[test]
fn a_long_head_is_refused() {
    let receiver = World::new().serve(&[]);
    for bytes in [31_000, 32_000, 32_768, 100_000] {
        let mut headers = signed("a", b"{}");
        headers.push(("x-long", vec![b'x'; bytes]));
        let mut request = head("POST", "/", &headers);
        request.extend(b"content-length: 2\r\n\r\n{}");
        let mut stream = connect(receiver.address);
        let _ = stream.write_all(&request);
        if let Some(answer) = answer(stream) {
            assert_eq!(answer.status, 431, "{bytes}");
        }
    }
    check_serving(receiver.address);
}

#[test]
fn five_hundred_signatures_are_not_a_long_head() {
    let receiver = World::new().serve(&[]);
    let mut headers = signed("a", b"{}");
    let wrong = ["v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="; 500].join(" ");
    let (_, signature) = &mut headers[2];
    *signature = [wrong.as_bytes(), b" ", signature].concat();
    assert_eq!(request(receiver.address, "POST", "/", &headers, b"{}").status, 204);
}

#[test]
fn slow_heads_and_slow_bodies_are_cut_off_while_others_are_served() {
    let receiver = World::new().serve(&["--read-within", "300ms"]);
    let slow = |begin: &[u8]| {
        let mut stream = connect(receiver.address);
        stream.write_all(begin).unwrap();
        stream
    };
    let mut body = head("POST", "/", &signed("a", b"{}"));
    body.extend(b"content-length: 2\r\n\r\n{");
    let slow: Vec<_> = (0..25).flat_map(|_| [slow(b"POST / HTTP/1.1\r\nhost:"), slow(&body)]).collect();
    check_serving(receiver.address);
    for stream in slow {
        if let Some(answer) = answer(stream) {
            assert_eq!(answer.status, 408);
        }
    }
}

#[test]
fn a_client_that_never_reads_its_answers_is_cut_off() {
    let receiver = World::new().serve(&["--read-within", "300ms", "--connections-max", "1"]);
    let mut stream = connect(receiver.address);
    let requests = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n".repeat(1_000);
    // Answers pile up until the receiver stops reading.
    while stream.write_all(&requests).is_ok() {}
    check_serving(receiver.address);
}

#[test]
fn heads_that_never_end_keep_nobody_out_and_those_that_came_last_stay() {
    let receiver = World::new().serve(&["--read-within", "10m", "--connections-max", "3"]);
    let mut signed = head("POST", "/", &signed("late", b"{}"));
    signed.extend(b"content-length: 2\r\n");
    let mut halves: Vec<_> = (0..3)
        .map(|_| {
            let mut stream = connect(receiver.address);
            stream.write_all(&signed).unwrap();
            stream
        })
        .collect();
    check_serving(receiver.address);
    let mut youngest = halves.pop().unwrap();
    youngest.write_all(b"\r\n{}").unwrap();
    assert_eq!(answer(youngest).unwrap().status, 204);
}

#[test]
fn a_full_inbox_says_when_to_come_back() {
    let receiver = World::new().serve(&["--waiting-max", "0"]);
    let answer = receiver.post("a", b"{}");
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("30")));
}

#[test]
fn no_memory_for_bodies_says_when_to_come_back() {
    let receiver =
        World::new().serve(&["--body-max", "64KiB", "--bodies-max", "64KiB", "--read-within", "10m"]);
    let mut begin = head("POST", "/", &signed("a", b""));
    begin.extend(format!("content-length: {}\r\n\r\n", 64 << 10).into_bytes());
    begin.extend(vec![b'x'; (64 << 10) - 1]);
    let hold = || {
        let mut stream = connect(receiver.address);
        stream.write_all(&begin).unwrap();
        stream
    };
    // If the other request comes first, the endless one is refused; then both try again.
    let other = vec![b'x'; 40 << 10];
    let tries = std::iter::repeat_with(|| (hold(), receiver.post("b", &other)));
    let (first, refused) = tries.into_iter().find(|(_, answer)| answer.status != 204).unwrap();
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert_eq!(
        receiver.post("small", &other[..16 << 10]).status,
        204,
        "small ones are not kept out by large ones"
    );
    drop(first);
    let accepted =
        std::iter::repeat_with(|| receiver.post("c", &other)).find(|answer| answer.status != 503).unwrap();
    assert_eq!(accepted.status, 204, "the memory is given back");
}
