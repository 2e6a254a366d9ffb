use std::time::Duration;

use hookproof_sender::transport::AttemptResult;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::transport::endpoint::{Connection, Endpoint};
use crate::transport::rig::{brief, post, transport};

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[derive(Clone, Copy, Debug)]
enum End {
    Close,
    Reset,
    Hang,
}

fn ends() -> impl Strategy<Value = End> {
    prop_oneof![4 => Just(End::Close), 4 => Just(End::Reset), 1 => Just(End::Hang)]
}

async fn end(mut socket: TcpStream, how: End) {
    match how {
        End::Close => {}
        End::Reset => socket.set_zero_linger().unwrap(),
        End::Hang => {
            let _ = socket.read_to_end(&mut Vec::new()).await;
        }
    }
}

/// Close to a valid answer, to reach deep into the parser.
fn answers() -> impl Strategy<Value = Vec<u8>> {
    let whole: [&[u8]; 5] = [
        b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\nretry-after: 1\r\n\r\nhello, world",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\ntrailer: x\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429 Slow\r\nconnection: close\r\n\r\n",
        b"HTTP/1.0 503 Oh\r\ndate: never\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nxxx",
    ];
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 0..6);
    let nearly = (prop::sample::select(whole.to_vec()), edits).prop_map(|(whole, edits)| {
        let mut answer = whole.to_vec();
        for (at, byte, edit) in edits {
            let at = at.index(answer.len().max(1)).min(answer.len().saturating_sub(1));
            match edit {
                _ if answer.is_empty() => answer.push(byte),
                0 => answer[at] = byte,
                1 => answer.insert(at, byte),
                _ => answer.truncate(at),
            }
        }
        answer
    });
    prop_oneof![3 => nearly, 1 => prop::collection::vec(any::<u8>(), 0..2_000)]
}

/// Far beyond the deadline of an attempt.
const NEVER: Duration = Duration::from_secs(30);

#[test]
fn any_bytes_as_an_answer_end_the_attempt_and_never_panic() {
    let runtime = runtime();
    let transport = runtime.block_on(async { transport() });
    proptest!(|(answer in answers(), piece in 1_usize..200, how in ends())| {
        let (made, requests) = runtime.block_on(async {
            let endpoint = Endpoint::start(move |mut connection| {
                let answer = answer.clone();
                async move {
                    connection.request().await;
                    for piece in answer.chunks(piece) {
                        let _ = connection.socket.write_all(piece).await;
                        tokio::task::yield_now().await;
                    }
                    end(connection.socket, how).await;
                }
            })
            .await;
            let post = post(endpoint.url()).deadline(Duration::from_millis(30));
            let made = tokio::time::timeout(NEVER, post.through(&transport)).await;
            (made, endpoint.requests())
        });
        let made = made.map_err(|_| TestCaseError::fail("an attempt outlived its deadline"))?;
        // A busy machine may take long to connect.
        let unsent = matches!(made, AttemptResult::Unsent(_));
        prop_assert!(!unsent || requests == 0, "the request was read: {}", brief(&made));
    });
}

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[derive(Clone, Copy, Debug)]
struct Step {
    well: usize,
    reads: usize,
    says: usize,
    how: End,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let reads = prop_oneof![Just(0), 1..400_usize, Just(1 << 20)];
    let step = (0..3_usize, reads, 0..=ANSWER.len(), ends());
    let step = step.prop_map(|(well, reads, says, how)| Step { well, reads, says, how });
    prop::collection::vec(step, 1..4)
}

async fn act(mut connection: Connection, step: Step) -> usize {
    for well in 0..step.well {
        if connection.request().await.is_none() {
            return well;
        }
        let _ = connection.socket.write_all(ANSWER).await;
    }
    let mut seen = Vec::new();
    let socket = &mut connection.socket;
    while seen.len() < step.reads {
        match (&mut *socket).take((step.reads - seen.len()) as u64).read_buf(&mut seen).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    let _ = socket.write_all(&ANSWER[..step.says]).await;
    end(connection.socket, step.how).await;
    step.well + usize::from(!seen.is_empty())
}

#[test]
fn no_endpoint_sees_more_requests_than_attempts_that_may_have_left() {
    let runtime = runtime();
    proptest!(|(steps in steps(), body in prop_oneof![0..500_usize, Just(1 << 20)])| {
        let (made, seen) = runtime.block_on(async {
            let (count, mut counted) = mpsc::unbounded_channel();
            let steps = steps.clone();
            let endpoint = Endpoint::start(move |connection| {
                let step = steps[connection.number % steps.len()];
                let count = count.clone();
                async move { count.send(act(connection, step).await).unwrap() }
            })
            .await;
            let transport = transport();
            let mut made = Vec::new();
            for _ in 0..4 {
                let post = post(endpoint.url()).body(vec![b'x'; body]).deadline(Duration::from_millis(30));
                made.push(tokio::time::timeout(NEVER, post.through(&transport)).await);
            }
            // Hanging connections end, so that everything is counted.
            drop((transport, endpoint));
            let mut seen = 0;
            while let Some(requests) = counted.recv().await {
                seen += requests;
            }
            (made, seen)
        });
        let made = made.into_iter().collect::<Result<Vec<_>, _>>();
        let made = made.map_err(|_| TestCaseError::fail("an attempt outlived its deadline"))?;
        let may_have_left = made.iter().filter(|made| !matches!(made, AttemptResult::Unsent(_))).count();
        prop_assert!(seen <= may_have_left, "{seen} requests were seen of {made:?}");
    });
}
