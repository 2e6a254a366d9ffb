//! `serve`: deliver, until told to stop.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

use super::desk::runtime;
use super::failure::Failure;
use super::options::{Common, Durable, Keep, Reach, delivering};
use crate::engine::Nanos;
use crate::runtime::{Options, Sender};

/// As a shell reports what SIGINT has ended.
const EXIT_INTERRUPTED: u8 = 130;
/// What could not be finished in time is attempted again at the next start.
const EXIT_CUT_OFF: u8 = 1;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof-sender serve --db sender.db
  SENDER_TOKEN=… hookproof-sender serve --db sender.db --listen 0.0.0.0:8080 --token-env SENDER_TOKEN
  hookproof-sender serve --db sender.db --allow-private-targets --log debug

SIGTERM or Ctrl-C: starts nothing more, finishes what is under way, commits, exits 0. A second one ends it at once.
Any number of `serve` and `drain` may run on one database; each subscriber is one process's at a time.")]
pub(super) struct Serve {
    /// Where to offer the HTTP API; beyond loopback only with a token
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// The environment variable with the token that the HTTP API asks for
    #[arg(long, value_name = "NAME")]
    token_env: Option<String>,
    #[command(flatten)]
    durable: Durable,
    #[command(flatten)]
    reach: Reach,
    #[command(flatten)]
    keep: Keep,
    /// How long a subscriber stays this process's without a word, should it die
    #[arg(long, value_name = "TIME", default_value = "30s")]
    lease: Nanos,
    /// How long to wait at the end for what is under way
    #[arg(long, value_name = "TIME", default_value = "20s")]
    stop_within: Nanos,
}

/// Where the HTTP API is offered, and to whom.
pub(super) struct Door {
    pub(super) listen: SocketAddr,
    pub(super) token: Option<String>,
}

impl Serve {
    pub(super) fn run(self, common: &Common) -> Result<ExitCode, Failure> {
        let door = self.door()?;
        let options = delivering(common.database()?, &self.reach, self.durable, self.keep, self.lease)?;
        let runtime = runtime()?;
        let result = runtime.block_on(serve(options, door, Duration::from_nanos(self.stop_within.0)));
        // After a second signal, nobody waits for anything any more.
        runtime.shutdown_background();
        result
    }

    fn door(&self) -> Result<Door, Failure> {
        let token = self.token_env.as_deref().map(token_from).transpose()?;
        if token.is_none() && !self.listen.ip().is_loopback() {
            return Err(Failure::usage(format_args!(
                "--listen {} is open to others; expected a loopback address, or a token for them: --token-env NAME",
                self.listen
            )));
        }
        Ok(Door { listen: self.listen, token })
    }
}

fn token_from(variable: &str) -> Result<String, Failure> {
    const BYTES_MIN: usize = 16;
    let token = std::env::var(variable).unwrap_or_default();
    let visible = token.bytes().all(|byte| byte.is_ascii_graphic());
    if token.len() < BYTES_MIN || !visible {
        return Err(Failure::usage(format_args!(
            "the environment variable {variable} holds no token; expected at least {BYTES_MIN} visible ASCII \
             characters without blanks"
        )));
    }
    Ok(token)
}

async fn serve(options: Options, door: Door, stop_within: Duration) -> Result<ExitCode, Failure> {
    let mut signals = Signals::new()?;
    let sender = Sender::open(options).await?;
    let ended = tokio::select! {
        ended = offer_api(door, sender.clone()) => Some(ended),
        () = signals.next() => None,
    };
    info!(?stop_within, "stopping: finishing what is under way");
    tokio::select! {
        in_order = sender.stop(stop_within) => match ended {
            Some(Err(failure)) => Err(failure),
            _ if in_order => Ok(ExitCode::SUCCESS),
            _ => Ok(ExitCode::from(EXIT_CUT_OFF)),
        },
        () = signals.next() => {
            warn!("stopped at once: what was under way is attempted again at the next start");
            Ok(ExitCode::from(EXIT_INTERRUPTED))
        }
    }
}

/// Offers the HTTP API for as long as it can.
async fn offer_api(door: Door, _sender: Sender) -> Result<(), Failure> {
    warn!(listen = %door.listen, with_token = door.token.is_some(), "this build has no HTTP API");
    std::future::pending().await
}

/// What asks a process to end.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::ours(format_args!("can't listen for signals: {error}")))
        };
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
