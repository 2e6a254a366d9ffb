use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tokio::sync::watch;
use tracing::{info, warn};

use super::failure::Failure;
use super::options::{ListenArgs, runtime};
use super::quantity::time;
use super::signals::Signals;
use crate::clock::Clock;
use crate::inbox::{Counting, Durability, Inbox, Options};
use crate::server::{EffectsService, Receive, bind, serve};

const EXIT_CUT_OFF: u8 = 1;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  HOOK_SECRET=whsec_… hookproof receiver-server serve --secret-env HOOK_SECRET --db inbox.db
  hookproof receiver-server serve --profile github --secret-env GITHUB_SECRET --db inbox.db --listen 127.0.0.1:9000
  hookproof receiver-server serve --secret-env NEW --secret-env OLD --db inbox.db --effects-listen 127.0.0.1:9001

Answers POST on any path: 204 once the delivery is on disk, 4xx if it is not genuine, 503 with Retry-After under overload.
GET /healthz says whether it takes deliveries. After SIGTERM it finishes open requests, commits and exits with 0.")]
pub(super) struct Serve {
    #[command(flatten)]
    door: ListenArgs,
    /// The environment variable with the secret; may be given again, for a rotation
    #[arg(long, value_name = "NAME", required = true)]
    secret_env: Vec<String>,
    /// The inbox's file, made if there is none
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// Where to list processed ids, at GET /effects; only a loopback address, since it needs no token
    #[arg(long, value_name = "ADDRESS")]
    effects_listen: Option<SocketAddr>,
    /// The failure that an acknowledged delivery survives: a power cut, or only the end of the process, which
    /// is faster
    #[arg(long, value_enum, value_name = "WHAT", default_value = "power-loss")]
    durability: Survives,
    /// How long to remember processed ids, to recognise repeats
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = time)]
    keep: Duration,
    /// The most unprocessed deliveries; beyond it, senders are told to come back
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000)]
    waiting_max: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Survives {
    PowerLoss,
    Process,
}

impl Serve {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        if let Some(address) =
            self.effects_listen.filter(|address| !address.ip().to_canonical().is_loopback())
        {
            return Err(Failure::Usage(format!(
                "--effects-listen {address} is reachable from other machines; expected a loopback address, such \
                 as 127.0.0.1:9001"
            )));
        }
        let clock = Clock::wall();
        let layer = self.door.admission(clock.clone())?.layer(self.door.keys_from(&self.secret_env)?);
        let options = Options {
            open_within: self.door.start_within,
            durability: match self.durability {
                Survives::PowerLoss => Durability::PowerLoss,
                Survives::Process => Durability::Process,
            },
            waiting_max: self.waiting_max,
            keep: self.keep,
            ..Options::new(&self.db)
        };
        let inbox = Inbox::open(options, clock, Arc::new(Counting))?;
        let service = Receive::new(&layer, inbox.clone());
        let result = runtime()?.block_on(self.answer(service, &inbox));
        inbox.close();
        let in_order = result?;
        Ok(if in_order { ExitCode::SUCCESS } else { ExitCode::from(EXIT_CUT_OFF) })
    }

    /// False if requests were cut off.
    async fn answer(&self, service: Receive, inbox: &Inbox) -> Result<bool, Failure> {
        let mut signals = Signals::new()?;
        let (stop, stopped) = watch::channel(());
        let stopping = |mut stopped: watch::Receiver<()>| async move { drop(stopped.changed().await) };
        let (limits, within) = (self.door.limits(), self.door.stop_within);
        if let Some(address) = self.effects_listen {
            let listener = bind(address, self.door.start_within).await?;
            info!(address = %listener.local_addr()?, "the effects are listed at /effects");
            let effects = EffectsService::new(inbox.effects()?);
            tokio::spawn(serve(listener, effects, limits, stopping(stopped.clone()), Duration::ZERO));
        }
        let listener = bind(self.door.listen, self.door.start_within).await?;
        info!(address = %listener.local_addr()?, db = %self.db.display(), "listening");
        let mut answering = tokio::spawn(serve(listener, service, limits, stopping(stopped), within));
        tokio::select! {
            () = signals.next() => {}
            // The server ends only if it panics.
            _ = &mut answering => return Err(Failure::Ours("the server ended unexpectedly".to_owned())),
        }
        info!(?within, "stopping: finishing open requests");
        drop(stop);
        let in_order = tokio::select! {
            in_order = answering => in_order.unwrap_or(false),
            () = signals.next() => false,
        };
        if !in_order {
            warn!("open requests were cut off; their senders will try again");
        }
        Ok(in_order)
    }
}
