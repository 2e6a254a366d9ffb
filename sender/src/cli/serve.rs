use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroU64};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{CONNECTION, HOST, TRANSFER_ENCODING};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use clap::Args;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::{info, warn};
use tracing_subscriber::EnvFilter;

use super::failure::Failure;
use super::options::{Common, Delivering, node_name, token_from};
use super::print::wants_colour;
use super::session::runtime;
use super::signals::Signals;
use crate::api::{self, BindError, Caller, Collector, Config, Scope, Token, Tokens, bind, is_reachable};
use crate::operate::flow_watch::watch_flow;
use crate::runtime::clock::wall;
use crate::runtime::{OpenError, Options, Sender};
use crate::spans::{Span, Spans};
use crate::store::{Database, StoreError};
use crate::transport::{Settings, percent_decoded};

const EXIT_INTERRUPTED: u8 = 130;
/// The next start repeats cut-off attempts.
const EXIT_CUT_OFF: u8 = 1;

/// The pause before the database is opened again. Opening itself also waits.
const OPEN_AGAIN: Duration = Duration::from_millis(500);

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender serve --db sender.db
  SENDER_TOKEN=… EMIT_TOKEN=… hookproof sender serve --db sender.db --listen 0.0.0.0:8080 \\
      --token-env SENDER_TOKEN --token-env EMIT_TOKEN=emit
  hookproof sender serve --db sender.db --allow-private-targets --log debug

After SIGTERM or Ctrl-C it starts no attempt, finishes open ones, commits and exits with 0, or with 1 if attempts were cut off
after --stop-within. A second signal ends it at once, with 130.
Several `serve` and `drain` can share one database. Each subscriber belongs to one process at a time, and the processes hold
equal shares. `nodes` lists them; `node drain` makes one hand its subscribers to the others.
`token create` makes tokens that all `serve` of the database accept.")]
pub(super) struct Serve {
    /// The address of the HTTP API; beyond loopback only with a token, from --token-env or `token create`
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// An environment variable with a token for the HTTP API, and its scope. May be given again. Scopes: emit (POST
    /// /v1/events); read (every GET but that of tokens); operate (read, and every act but to add, change, remove or rotate
    /// a subscriber, to emit, to forget, or to make or revoke a token); admin, the default
    #[arg(long, value_name = "NAME[=SCOPE]")]
    token_env: Vec<TokenSource>,
    #[command(flatten)]
    delivering: Delivering,
    /// The most connections to all subscribers together; by default, the share that the limit on open files
    /// leaves
    #[arg(long, value_name = "COUNT")]
    connections_max: Option<NonZeroU32>,
    /// The name of this process among those that deliver from the database; by default, its machine and
    /// number
    #[arg(long, value_name = "NAME", value_parser = node_name, env = "HOOKPROOF_NODE", hide_env_values = true)]
    node: Option<Arc<str>>,
    #[command(flatten)]
    telemetry: Telemetry,
}

#[derive(Args, Debug)]
struct Telemetry {
    /// Export metrics, and a span for each event and attempt, to this OpenTelemetry collector: OTLP over HTTP, in JSON,
    /// such as http://127.0.0.1:4318. OTEL_EXPORTER_OTLP_HEADERS may hold headers with its key: NAME=VALUE, between
    /// commas, special characters percent-encoded
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
    /// Export the trace of one event in so many. All processes choose the same events
    #[arg(long, value_name = "COUNT", default_value = "1", requires = "otlp")]
    otlp_one_in: NonZeroU64,
}

impl Telemetry {
    fn exporter(&self, settings: &Settings) -> Result<Option<Exporter>, Failure> {
        let Some(url) = &self.otlp else { return Ok(None) };
        // The URL may hold a secret.
        let collector = Collector::new(url, otlp_headers()?, settings.clone());
        let collector = collector.map_err(|error| {
            Failure::usage(format_args!(
                "--otlp cannot be used: {error}; expected such as http://127.0.0.1:4318"
            ))
        })?;
        let (spans, waiting) = Spans::channel(self.otlp_one_in);
        Ok(Some(Exporter { collector, spans, waiting }))
    }
}

struct Exporter {
    collector: Collector,
    spans: Spans,
    waiting: mpsc::Receiver<Span>,
}

/// Quotes no value: it may be a key.
fn otlp_headers() -> Result<HeaderMap, Failure> {
    const VARIABLE: &str = "OTEL_EXPORTER_OTLP_HEADERS";
    let unusable =
        |what: &str| Failure::usage(format_args!("{VARIABLE}: {what}; expected NAME=VALUE, between commas"));
    let mut headers = HeaderMap::new();
    let Some(text) = std::env::var_os(VARIABLE) else { return Ok(headers) };
    let text = text.to_str().ok_or_else(|| unusable("it is not UTF-8"))?;
    for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
        let (name, value) = pair.split_once('=').ok_or_else(|| unusable("a part has no ="))?;
        let name =
            HeaderName::from_str(name.trim()).map_err(|_| unusable("a name is not one of a header"))?;
        let frames =
            [HOST, CONNECTION, TRANSFER_ENCODING].contains(&name) || name.as_str().starts_with("content-");
        if frames {
            return Err(unusable(&format!("{name} is reserved for the sender")));
        }
        let value = percent_decoded(value.trim()).and_then(|value| HeaderValue::from_bytes(&value).ok());
        let mut value = value.ok_or_else(|| unusable(&format!("the value of {name} cannot be sent")))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

#[derive(Clone, Debug)]
struct TokenSource {
    variable: String,
    scope: Scope,
}

impl FromStr for TokenSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (variable, scope) = match text.split_once('=') {
            None => (text, Some(Scope::Admin)),
            Some((variable, scope)) => (variable, Scope::named(scope)),
        };
        let scope = scope.filter(|_| !variable.is_empty()).ok_or_else(|| {
            let scopes = Scope::ALL.map(Scope::name).join(", ");
            format!("expected NAME, or NAME=SCOPE with one of {scopes}, such as EMIT_TOKEN=emit")
        })?;
        Ok(Self { variable: variable.to_owned(), scope })
    }
}

struct ListenArgs {
    listen: SocketAddr,
    tokens: Tokens,
    requests: Settings,
    exporter: Option<Exporter>,
}

impl Serve {
    pub(super) fn run(self, common: &Common) -> Result<ExitCode, Failure> {
        let door = self.door()?;
        let options = self.delivering.options(common.database()?)?;
        let options = Options { name: self.node.clone(), ..options };
        let runtime = runtime()?;
        let result =
            runtime.block_on(serve(options, door, Duration::from_nanos(self.delivering.stop_within.0)));
        // After a second signal, do not wait.
        runtime.shutdown_background();
        result
    }

    fn door(&self) -> Result<ListenArgs, Failure> {
        let tokens = self.token_env.iter().map(|TokenSource { variable, scope }| {
            let name = Some(variable.as_str().into());
            let caller = Caller { name, scope: *scope, subscribers: None };
            Ok((token_from(variable, Token::new)?, caller))
        });
        let tokens = Tokens::new(tokens.collect::<Result<Vec<_>, Failure>>()?);
        let tokens = tokens.map_err(|error| Failure::usage(format_args!("--token-env: {error}")))?;
        let mut requests =
            Settings { connections_max: self.connections_max, ..self.delivering.requests.settings()? };
        let exporter = self.telemetry.exporter(&requests)?;
        requests.spans = exporter.as_ref().map(|exporter| exporter.spans.clone());
        Ok(ListenArgs { listen: self.listen, tokens, requests, exporter })
    }
}

async fn serve(options: Options, door: ListenArgs, stop_within: Duration) -> Result<ExitCode, Failure> {
    let mut signals = Signals::new()?;
    let mut has_token = !door.tokens.is_empty();
    if !has_token && is_reachable(door.listen) {
        let looked = wait_for_database(&mut signals, async || holds_token(&options.database)).await?;
        let Some(found) = looked else { return Ok(ExitCode::SUCCESS) };
        has_token = found;
    }
    let listener = bind(door.listen, has_token).await.map_err(|error| match error {
        BindError::Open { .. } => Failure::usage(error),
        BindError::Io { .. } => Failure::refused(error),
    })?;
    let config = Config {
        guard: options.guard.clone(),
        regions: options.regions.clone(),
        tokens: door.tokens,
        is_reachable: is_reachable(door.listen),
        request_time_max: Config::REQUEST_TIME_MAX,
    };
    let address = listener.local_addr().ok().map(|address| address.to_string().into());
    let options = Options { address, ..options };
    let open = async || Sender::open_with(options.clone(), door.requests.clone()).await;
    let Some(sender) = wait_for_database(&mut signals, open).await? else {
        return Ok(ExitCode::SUCCESS);
    };
    if let Ok(address) = listener.local_addr() {
        info!(%address, "the HTTP API listens");
    }
    let instance =
        options.name.as_deref().map_or_else(|| format!("{:016x}", sender.owner().0), str::to_owned);
    let exporting = door.exporter.map(|Exporter { collector, waiting, .. }| {
        let (stop, stopped) = oneshot::channel();
        (tokio::spawn(api::export(sender.clone(), instance, collector, waiting, stopped)), stop)
    });
    let (stop, stopped) = oneshot::channel::<()>();
    let router = api::router(sender.clone(), config);
    let stopped = async { drop(stopped.await) };
    let answering = tokio::spawn(api::serve(listener, router, stopped, stop_within));
    tokio::select! {
        () = signals.next() => {}
        never = watch_flow(&sender) => match never {},
        // A supervisor must restart it.
        what = sender.breakdown() => return Err(Failure::ours(format_args!("{what}; this process ends: restart it"))),
    }
    // No attempt starts after the log line.
    sender.start_nothing_more();
    info!(?stop_within, "stopping: finishing open attempts");
    drop(stop);
    let ended = async {
        let in_order = end(&sender, answering, stop_within).await;
        if let Some((exporting, stop)) = exporting {
            drop(stop);
            if let Err(error) = exporting.await {
                warn!(%error, "the export to the OTLP collector has failed");
            }
        }
        in_order
    };
    tokio::select! {
        in_order = ended => {
            Ok(if in_order { ExitCode::SUCCESS } else { ExitCode::from(EXIT_CUT_OFF) })
        }
        () = signals.next() => {
            warn!("stopped at once: the next start repeats the attempts that were cut off");
            Ok(ExitCode::from(EXIT_INTERRUPTED))
        }
    }
}

/// Whether it has a valid token. A database that is not made yet has none.
fn holds_token(database: &Database) -> Result<bool, OpenError> {
    if !database.may_exist() {
        return Ok(false);
    }
    match database.parts().reader().and_then(|reader| reader.tokens()) {
        Ok(tokens) => Ok(tokens.iter().any(|token| !token.is_expired(wall()))),
        Err(StoreError::Foreign { .. }) => Ok(false),
        Err(error) => Err(OpenError::Store { database: database.clone(), error }),
    }
}

/// Opens it. Waits while it is locked, unreachable or read-only. `None` if told to stop.
async fn wait_for_database<T>(
    signals: &mut Signals,
    mut open: impl AsyncFnMut() -> Result<T, OpenError>,
) -> Result<Option<T>, Failure> {
    let mut said = false;
    loop {
        match open().await {
            Err(OpenError::Store { error, .. }) if error.passes_by_itself() => {
                if !std::mem::replace(&mut said, true) {
                    warn!(%error, "waiting for the database");
                }
                if timeout(OPEN_AGAIN, signals.next()).await.is_ok() {
                    return Ok(None);
                }
            }
            opened => return Ok(Some(opened?)),
        }
    }
}

/// Open requests need the sender, so the API stops first. One deadline for both.
async fn end(sender: &Sender, answering: JoinHandle<bool>, within: Duration) -> bool {
    let clock = sender.clock();
    let begun = clock.now();
    // A slow API must not take the time of deliveries.
    let answered = matches!(timeout(within / 2, answering).await, Ok(Ok(true)));
    let passed = Duration::from_nanos(clock.now().since(begun).0);
    sender.stop(within.saturating_sub(passed)).await && answered
}

/// A second call changes nothing.
pub(super) fn start(directives: &str, json: bool) -> Result<(), Failure> {
    let filter = EnvFilter::builder().parse(directives).map_err(|error| {
        Failure::usage(format_args!(
            "cannot read the log level {directives:?}: {error}; expected error, warn, info, debug, trace, or off, \
             such as --log info"
        ))
    })?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    // A log that cannot be written must not end the thread that logs.
    let logs = logs.log_internal_errors(false);
    // An earlier setup wins.
    let _ = if json {
        logs.json().try_init()
    } else {
        logs.with_ansi(io::stderr().is_terminal() && wants_colour()).with_target(false).try_init()
    };
    Ok(())
}
