//! `relay`: verify deliveries and forward them, until told to stop.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tokio::sync::oneshot;
use tracing::info;

use super::failure::Failure;
use super::options::{ListenArgs, runtime};
use super::quantity::time;
use super::signals::Signals;
use crate::clock::Clock;
use crate::relay::{self, Options, Target};
use crate::server::{bind, serve};

/// Requests had to be cut off at the end.
const EXIT_CUT_OFF: u8 = 1;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  HOOK_SECRET=whsec_… hookproof-receiver relay --secret-env HOOK_SECRET --to http://127.0.0.1:3000/hook
  hookproof-receiver relay --profile vvv-frozen --secret-env HOOK_SECRET --to https://inside.example/hook --path /hook

Forwards the raw body and the headers, and passes status and Retry-After back. What was forwarded well is not forwarded
again for the window; what failed is. Without the other side: 502, or 504 if it takes too long.")]
pub(super) struct Relay {
    #[command(flatten)]
    door: ListenArgs,
    /// Where to forward
    #[arg(long, value_name = "URL")]
    to: Target,
    /// Take deliveries at this path alone; others are answered with 404
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// For how long a delivery that was forwarded well is not forwarded again
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    window: Duration,
    /// How long the other side may take
    #[arg(long, value_name = "TIME", default_value = "8s", value_parser = time)]
    timeout: Duration,
}

impl Relay {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let clock = Clock::wall();
        let layer = self.door.layer(clock.clone())?;
        let options = Options {
            path: self.path.clone(),
            window: self.window,
            timeout: self.timeout,
            ..Options::new(self.to.clone())
        };
        let service = relay::Relay::new(&layer, clock, options);
        let in_order = runtime()?.block_on(self.answer(service))?;
        Ok(if in_order { ExitCode::SUCCESS } else { ExitCode::from(EXIT_CUT_OFF) })
    }

    async fn answer(&self, service: relay::Relay) -> Result<bool, Failure> {
        let mut signals = Signals::new()?;
        let listener = bind(self.door.listen, self.door.start_within).await?;
        info!(address = %listener.local_addr()?, to = ?self.to, "listening");
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async { drop(stopped.await) };
        let answering =
            tokio::spawn(serve(listener, service, self.door.limits(), stopped, self.door.stop_within));
        signals.next().await;
        drop(stop);
        Ok(tokio::select! {
            in_order = answering => in_order.unwrap_or(false),
            () = signals.next() => false,
        })
    }
}
