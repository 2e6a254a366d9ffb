use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::watch;
use tokio::task::JoinHandle;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Says {
    /// An IPv4 address and its validity in seconds. There is no IPv6 address.
    Address(Ipv4Addr, u32),
    NoSuchName,
    /// No answer, over UDP and TCP.
    Nothing,
}

pub(crate) struct NameServer {
    pub(crate) address: SocketAddr,
    asked: Arc<AtomicUsize>,
    unanswered: watch::Receiver<usize>,
    _tcp: TcpListener,
    answering: JoinHandle<()>,
}

impl NameServer {
    pub(crate) async fn start(script: impl Fn(&str) -> Says + Send + Sync + 'static) -> Self {
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            // Another process may have this TCP port.
            if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()).await {
                break (udp, tcp);
            }
        };
        let address = udp.local_addr().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let (tell, unanswered) = watch::channel(0);
        let silent = Mutex::new(std::collections::BTreeSet::new());
        let answering = tokio::spawn(async move {
            let mut question = [0; 512];
            loop {
                let (length, from) = udp.recv_from(&mut question).await.unwrap();
                let (name, kind, end) = read(&question[..length]);
                if kind == A {
                    counted.fetch_add(1, Ordering::SeqCst);
                }
                match answer(&question[..end], kind, script(&name)) {
                    Some(answer) => drop(udp.send_to(&answer, from).await.unwrap()),
                    None => {
                        silent.lock().unwrap().insert(name);
                        tell.send_replace(silent.lock().unwrap().len());
                    }
                }
            }
        });
        Self { address, asked, unanswered, _tcp: tcp, answering }
    }

    pub(crate) fn queries(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    pub(crate) async fn hangs_for(&mut self, names: usize) {
        self.unanswered.wait_for(|count| *count >= names).await.unwrap();
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.answering.abort();
    }
}

const A: u16 = 1;

fn read(message: &[u8]) -> (String, u16, usize) {
    let (mut name, mut at) = (String::new(), 12);
    while message[at] > 0 {
        let label = &message[at + 1..=at + usize::from(message[at])];
        name.push_str(std::str::from_utf8(label).unwrap());
        name.push('.');
        at += label.len() + 1;
    }
    (
        name.trim_end_matches('.').to_ascii_lowercase(),
        u16::from_be_bytes([message[at + 1], message[at + 2]]),
        at + 5,
    )
}

fn answer(question: &[u8], kind: u16, says: Says) -> Option<Vec<u8>> {
    let mut answer = question.to_vec();
    // As a recursive server answers, with one question.
    answer[2..4].copy_from_slice(&[0x81, 0x80]);
    answer[4..12].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
    match says {
        Says::Nothing => return None,
        Says::NoSuchName => answer[3] |= 3,
        Says::Address(..) if kind != A => {}
        Says::Address(address, seconds) => {
            answer[7] = 1;
            answer.extend([0xc0, 12, 0, 1, 0, 1]);
            answer.extend(seconds.to_be_bytes());
            answer.extend([0, 4]);
            answer.extend(address.octets());
        }
    }
    Some(answer)
}
