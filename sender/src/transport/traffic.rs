//! Bounds the bytes that an endpoint sends beside its answers: empty frames, records, interim answers. Each lane's
//! account is charged for all bytes below TLS on its sockets.
//!
//! An answer earns more than an honest one costs, and time earns enough for keep-alives. An endpoint that overdraws
//! the account is hostile: the lane's connections end, and it gets no new one before the account recovers.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::failure::Failure;
use super::timer::{lock, now};

/// Bytes. A body of 64 KiB in pieces of 16 bytes, each in its own packet, costs half.
const BALANCE_MAX: i64 = 2 * 1024 * 1024;
/// The balance that a connection needs after an overdraft: 16 s of time.
const BALANCE_TO_RECOVER: i64 = BALANCE_MAX / 2;
/// Enough for 120 connections with a PING a second each.
const BYTES_A_MILLISECOND: i64 = 64;
/// The cost of a read beside its bytes, and the least of a write: about the system's own cost.
const CALL_BYTES: usize = 256;
/// Earned by each answer and connection: a head twice as long as common proxies allow, or a certificate chain.
pub(super) const ANSWER_BYTES: usize = 16 * 1024;
/// A byte of a body pays for itself and as much framing.
const BODY_EARNS: usize = 2;
/// Bytes of a request that pay for one byte of flow control.
const WRITTEN_EARN: usize = 16;

#[derive(Debug)]
pub(super) struct Account(Mutex<State>);

#[derive(Debug)]
struct State {
    balance: i64,
    paid: Instant,
    is_hostile: bool,
}

impl Default for Account {
    fn default() -> Self {
        Self(Mutex::new(State { balance: BALANCE_MAX, paid: now(), is_hostile: false }))
    }
}

impl Account {
    pub(super) fn earn(&self, bytes: usize) {
        lock(&self.0).earn(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    pub(super) fn earn_body(&self, bytes: usize) {
        self.earn(bytes.saturating_mul(BODY_EARNS));
    }

    fn charge(&self, bytes: usize) -> io::Result<()> {
        let is_hostile = lock(&self.0).charge(i64::try_from(bytes).unwrap_or(i64::MAX), now());
        if is_hostile { Err(io::Error::other(Failure::Hostile)) } else { Ok(()) }
    }

    /// The lane's connections must end, and no new one may start.
    pub(super) fn is_hostile(&self) -> bool {
        let mut state = lock(&self.0);
        state.is_hostile && state.is_still_hostile(now())
    }

    /// A full account holds no information.
    pub(super) fn is_full(&self) -> bool {
        let mut state = lock(&self.0);
        let moment = now();
        !state.is_still_hostile(moment) && state.balance == BALANCE_MAX
    }
}

impl State {
    fn earn(&mut self, bytes: i64) {
        self.balance = self.balance.saturating_add(bytes).min(BALANCE_MAX);
    }

    fn earn_time(&mut self, moment: Instant) {
        let whole = moment.saturating_duration_since(self.paid).as_millis();
        if whole > 0 {
            self.paid = moment;
            self.earn(i64::try_from(whole).unwrap_or(i64::MAX).saturating_mul(BYTES_A_MILLISECOND));
        }
    }

    /// A hostile endpoint is not read, so it is not charged.
    fn charge(&mut self, bytes: i64, moment: Instant) -> bool {
        if !self.is_still_hostile(moment) {
            self.balance = self.balance.saturating_sub(bytes);
            self.is_hostile = self.balance < 0;
            self.balance = self.balance.max(0);
        }
        self.is_hostile
    }

    fn is_still_hostile(&mut self, moment: Instant) -> bool {
        self.earn_time(moment);
        self.is_hostile &= self.balance < BALANCE_TO_RECOVER;
        self.is_hostile
    }
}

pub(super) struct Charged {
    tcp: TcpStream,
    account: Arc<Account>,
}

impl Charged {
    pub(super) fn new(tcp: TcpStream, account: Arc<Account>) -> Self {
        account.earn(ANSWER_BYTES);
        Self { tcp, account }
    }

    pub(super) const fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    pub(super) fn account(&self) -> &Account {
        &self.account
    }

    fn wrote(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let count = ready!(written)?;
        self.account().earn(count / WRITTEN_EARN);
        // The write cannot be undone, so the next read fails instead.
        let _ = self.account().charge(CALL_BYTES.saturating_sub(count));
        Poll::Ready(Ok(count))
    }
}

impl AsyncRead for Charged {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.tcp).poll_read(cx, buf))?;
        let count = buf.filled().len() - before;
        Poll::Ready(self.account().charge(CALL_BYTES + count))
    }
}

impl AsyncWrite for Charged {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.tcp).poll_write(cx, buf);
        self.wrote(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.tcp).poll_write_vectored(cx, bufs);
        self.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn until_hostile(bytes: usize, every: Duration, times: usize) -> Option<usize> {
        let mut moment = now();
        let mut state = State { balance: BALANCE_MAX, paid: moment, is_hostile: false };
        (0..times).find(|_| {
            moment += every;
            state.charge(i64::try_from(bytes).unwrap(), moment)
        })
    }

    #[test]
    fn keep_alives_go_on_forever_and_floods_do_not() {
        let ping = 2 * CALL_BYTES + 17 + 22;
        let (second, week) = (Duration::from_secs(1), 7 * 86_400);
        assert_eq!(until_hostile(ping, second, week), None);
        assert_eq!(until_hostile(100 * ping, second, week), None, "100 connections");
        let frame = until_hostile(9, Duration::ZERO, usize::MAX).unwrap();
        assert_eq!(frame, usize::try_from(BALANCE_MAX).unwrap() / 9);
        for (name, bytes, expected) in [("PINGs", ping, 4_306), ("a byte at a time", CALL_BYTES + 1, 10_865)]
        {
            let fast = until_hostile(bytes, Duration::from_millis(1), week);
            assert_eq!(fast, Some(expected), "{name}, one a millisecond");
        }
    }

    #[test]
    fn a_hostile_endpoint_gets_no_connection_for_16_seconds() {
        let begins = now();
        let mut state = State { balance: BALANCE_MAX, paid: begins, is_hostile: false };
        for round in 0..10 {
            let moment = begins + round * Duration::from_secs(17);
            assert!(!state.is_still_hostile(moment));
            assert!(state.charge(i64::MAX, moment));
            assert!(state.charge(1, moment + Duration::from_secs(16)), "{round}");
        }
    }
}
