use std::convert::Infallible;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tracing::{error, info, warn};

use super::failure::Failure;
use super::options::{ListenArgs, runtime};
use super::quantity::time;
use super::routes;
use super::signals::Signals;
use super::watch::Watch;
use crate::clock::Clock;
use crate::relay::{self, Options, RouteSettings, Routes, Target};
use crate::server::{bind, serve};

const EXIT_CUT_OFF: u8 = 1;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  HOOK_SECRET=whsec_… hookproof receiver-server relay --secret-env HOOK_SECRET --to http://127.0.0.1:3000/hook
  hookproof receiver-server relay --profile vvv-frozen --secret-env HOOK_SECRET --to https://inside.example/hook --path /hook
  hookproof receiver-server relay --routes routes.toml --timeout 8s

A file of routes, each with the name of a subscriber from X-VVV-Subscriber:
  [routes.sub_1]
  to = \"http://127.0.0.1:3001/hook\"
  profile = \"vvv-frozen\"          # else --profile
  url = \"https://in.example/hook\" # else --url; for hubspot and square
  secrets = [\"whsec_…\"]           # several are for a rotation; or secret_env = [\"NAME\"]
  timeout = \"5s\"                  # else --timeout
  path = \"/hooks/sub_1\"           # for a sender without X-VVV-Subscriber

A changed file is read again once it was stable for a second, or at once on SIGHUP. If it has a mistake, the log says so and
the old routes stay.

Forwards the raw body and the headers, and returns status and Retry-After. A successful delivery is not forwarded again within
the window; a failed one is. Own answers: 400, a header is missing or malformed; 401, the signature is wrong or old; 404, unknown
subscriber; 405, not POST; 502, the target cannot be reached; 504, the target is too slow.")]
pub(super) struct Relay {
    #[command(flatten)]
    door: ListenArgs,
    /// The environment variable with the secret; may be given again, for a rotation
    #[arg(long, value_name = "NAME", required_unless_present = "routes", conflicts_with = "routes")]
    secret_env: Vec<String>,
    /// Where to forward, all subscribers alike
    #[arg(long, value_name = "URL", required_unless_present = "routes", conflicts_with = "routes")]
    to: Option<Target>,
    /// A file with a route for each subscriber: 1,024 routes and 1 MiB at most; followed as it changes
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// Take deliveries at this path alone; others are answered with 404
    #[arg(long, value_name = "PATH", conflicts_with = "routes")]
    path: Option<String>,
    /// How long to remember a forwarded delivery, so that it is not forwarded again
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    window: Duration,
    /// The time limit of the target
    #[arg(long, value_name = "TIME", default_value = "8s", value_parser = time)]
    timeout: Duration,
}

impl Relay {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let in_order = runtime()?.block_on(Arc::new(self).answer())?;
        Ok(if in_order { ExitCode::SUCCESS } else { ExitCode::from(EXIT_CUT_OFF) })
    }

    /// False if requests were cut off.
    async fn answer(self: Arc<Self>) -> Result<bool, Failure> {
        let mut signals = Signals::new()?;
        let watch = self.routes.as_deref().map(Watch::new).transpose()?;
        let options = Options { window: self.window, ..Options::default() };
        let relay = relay::Relay::new(self.door.admission(Clock::wall())?, options, self.first_routes()?);
        let listener = bind(self.door.listen, self.door.start_within).await?;
        info!(address = %listener.local_addr()?, to = ?self.to, routes = ?self.routes, "listening");
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async { drop(stopped.await) };
        let service = relay.clone();
        let mut answering =
            tokio::spawn(serve(listener, service, self.door.limits(), stopped, self.door.stop_within));
        tokio::select! {
            () = signals.next() => {}
            // The server ends only if it panics.
            _ = &mut answering => return Err(Failure::Ours("the server ended unexpectedly".to_owned())),
            never = self.follow(watch, &relay) => match never {},
        }
        drop(stop);
        Ok(tokio::select! {
            in_order = answering => in_order.unwrap_or(false),
            () = signals.next() => false,
        })
    }

    fn first_routes(&self) -> Result<Routes, Failure> {
        if let Some(file) = &self.routes {
            return Ok(self.read(file)?);
        }
        let target = self.to.clone().ok_or_else(|| Failure::Usage("expected --to or --routes".to_owned()))?;
        let keys = self.door.keys_from(&self.secret_env)?;
        let route = RouteSettings { keys, target, timeout: self.timeout, path: self.path.clone() };
        Ok(Routes::One(Box::new(route)))
    }

    fn read(&self, file: &Path) -> Result<Routes, routes::RoutesError> {
        let (routes, count) = routes::read(file, &self.door, self.timeout)?;
        info!(count, file = %file.display(), "the routes are loaded");
        Ok(routes)
    }

    async fn follow(self: &Arc<Self>, watch: Option<Watch>, relay: &relay::Relay) -> Infallible {
        let (Some(mut watch), Some(file)) = (watch, &self.routes) else { return pending().await };
        loop {
            watch.changed().await;
            let (this, file) = (Arc::clone(self), file.clone());
            match spawn_blocking(move || this.read(&file)).await {
                Ok(Ok(routes)) => {
                    relay.replace(routes);
                    info!("the new routes are in use");
                }
                Ok(Err(error)) => warn!("{error}; the old routes stay"),
                Err(error) => error!(%error, "reading the routes failed; the old routes stay"),
            }
        }
    }
}
