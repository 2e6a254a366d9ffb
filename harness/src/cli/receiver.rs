use std::io::{IsTerminal as _, Write as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum as _};
use hookproof_judge::catalogue;
use hookproof_judge::report::Colours;
use hookproof_judge::scenario::quantity;
use hookproof_judge::signature::{Handshake, Profile, Secret};
use hookproof_judge::standard::Side;
use indicatif::{ProgressBar, ProgressStyle};

use super::forms::try_to_open;
use super::interrupt::interrupt_requested;
use super::out::{HARNESS, UNREACHABLE, USAGE, print_stderr, refuse, worse};
use super::standard::{Standards, Subject, seen_of_receiver};
use crate::clock::Clock;
use crate::driver::DriverFile;
use crate::suite::{
    self, Bodies, Hooks, Known, Library, Need, Report, SERVER, Selection, Settings, Step, Stopped, quoted,
};
use crate::wire::request::Target;

#[derive(Debug, Args)]
pub(super) struct ReceiverArgs {
    /// The URL that takes webhooks
    #[arg(required_unless_present = "exec", conflicts_with = "exec")]
    url: Option<String>,
    #[command(flatten)]
    whom: ReceiverTarget,
    #[command(flatten)]
    probes: Probes,
    #[command(flatten)]
    weighing: Weighing,
    #[command(flatten)]
    standards: Standards,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
pub(super) struct ReceiverTarget {
    #[arg(long, default_value = Profile::NAMES[0], help = profiles(), value_parser = profile)]
    pub(super) profile: Profile,
    /// The environment variable that holds its secret, or the private key to its public one
    #[arg(long, value_name = "NAME")]
    pub(super) secret_env: String,
    /// I may send anything to this endpoint (needed for all but loopback addresses)
    #[arg(long)]
    pub(super) i_own_this_endpoint: bool,
}

#[derive(Debug, Args)]
struct Probes {
    /// A command in place of a URL: it reads one raw request on stdin, and ends with 0 (accepted) or 1 (rejected)
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["effects_url", "restart_command", "break_command"])]
    exec: Option<String>,
    /// The environment variable that holds a secret which the receiver no longer accepts
    #[arg(long, value_name = "NAME")]
    retired_secret_env: Option<String>,
    /// The environment variable that holds the verify token of meta's handshake, or of one in your own profile
    #[arg(long, value_name = "NAME", conflicts_with = "exec")]
    verify_token_env: Option<String>,
    /// Lists the ids of deliveries that were processed: JSON, JSON Lines, or one to a line
    #[arg(long, value_name = "URL")]
    effects_url: Option<String>,
    /// Restarts the receiver
    #[arg(long, value_name = "COMMAND")]
    restart_command: Option<String>,
    /// Makes the receiver fail deliveries, as when its database is down
    #[arg(long, value_name = "COMMAND", requires = "mend_command")]
    break_command: Option<String>,
    /// Undoes --break-command
    #[arg(long, value_name = "COMMAND", requires = "break_command")]
    mend_command: Option<String>,
}

#[derive(Debug, Args)]
struct Weighing {
    /// Cases to send: ids, sections, or patterns such as replay.*
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    only: Vec<String>,
    /// Cases to leave out, likewise
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    skip: Vec<String>,
    /// Leave out the cases that need an access which you did not give, in place of an inconclusive run; or a
    /// handshake that the receiver is not meant to answer
    #[arg(long, value_name = "ACCESS", value_delimiter = ',')]
    without: Vec<Need>,
    /// The bodies that the receiver takes, where the profile signs forms and JSON
    #[arg(long, value_enum, value_name = "KIND", default_value_t)]
    bodies: Bodies,
    /// Expected failures with their reasons; one that no longer happens fails the run
    #[arg(long, value_name = "FILE")]
    known: Option<PathBuf>,
    /// The library that verifies, such as stripe@23.1.0: its own listed faults warn, and fail only under --strict
    #[arg(long, value_name = "NAME@VERSION")]
    library: Option<String>,
    /// Treat `should` as `must`
    #[arg(long)]
    strict: bool,
    /// The largest accepted distance of a timestamp from now [default: the profile's, else 300s]
    #[arg(long, value_name = "TIME", value_parser = length)]
    tolerance: Option<Duration>,
    /// The longest wait for an answer, and for an effect
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = length)]
    timeout: Duration,
    /// The longest time of a connection that sends a byte a second
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = length)]
    slow_timeout: Duration,
}

#[derive(Debug, Args)]
struct Output {
    /// A directory for the report as one HTML page (receiver.html)
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A file for the report as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// The report as JSON instead of the table, or besides it in a file (--json=FILE)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true)]
    json: Option<PathBuf>,
}

impl Output {
    fn prepare(&self) -> Result<(), String> {
        if let Some(dir) = &self.out {
            std::fs::create_dir_all(dir)
                .map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
        }
        let files = self.junit.iter().chain(self.json.iter().filter(|_| !self.json_shown()));
        for path in files {
            try_to_open(path).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        }
        Ok(())
    }

    fn page(&self) -> Option<PathBuf> {
        self.out.as_ref().map(|dir| dir.join("receiver.html"))
    }

    fn json_shown(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }

    fn write_files(&self, junit: &str, json: &str) -> Result<(), String> {
        let junit = self.junit.as_deref().map_or(Ok(()), |path| write(path, junit));
        let json_file = self.json.as_deref().filter(|_| !self.json_shown());
        let json = json_file.map_or(Ok(()), |path| write(path, json));
        junit.and(json)
    }
}

/// The reason why a command can't begin, in one line with its remedy.
pub(super) struct Unusable(pub(super) String);

impl<E: std::error::Error> From<E> for Unusable {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

pub(super) fn main(asked: &ReceiverArgs) -> ExitCode {
    let settings = match settings(asked) {
        Ok(settings) => settings,
        Err(Unusable(why)) => {
            return refuse("receiver", why, USAGE);
        }
    };
    if let Err(why) = ready(asked, &settings) {
        print_stderr(format_args!("hookproof receiver: {why}"));
        return ExitCode::from(USAGE);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            print_stderr(format_args!("hookproof receiver: cannot start: {error}"));
            return ExitCode::from(HARNESS);
        }
    };
    let report = match runtime.block_on(watched(&settings)) {
        Ok(report) => report,
        Err(stopped) => {
            print_stderr(format_args!("hookproof receiver: {stopped}"));
            let json = serde_json::json!({ "error": stopped.to_string(), "exit_code": UNREACHABLE });
            let page = stopped.page(&settings.target.url);
            let paged = asked.output.page().map_or(Ok(()), |path| write(&path, &page));
            let kept = stopped.junit().and_then(|junit| asked.output.write_files(&junit, &json.to_string()));
            if let Err(why) = paged.and(kept) {
                print_stderr(format_args!("hookproof receiver: {why}"));
            }
            return ExitCode::from(UNREACHABLE);
        }
    };
    match hand_over(&report, &asked.output) {
        Ok(()) => ExitCode::from(worse(report.exit_code(), grade(asked, &report))),
        Err(why) => {
            print_stderr(format_args!("hookproof receiver: {why}"));
            ExitCode::from(HARNESS)
        }
    }
}

fn ready(asked: &ReceiverArgs, settings: &Settings) -> Result<(), String> {
    asked.standards.begin(Side::Receiver, Some(&settings.profile.to_string()))?;
    asked.output.prepare()
}

/// The certificate is handed on: a query or a command may hold a secret.
fn grade(asked: &ReceiverArgs, report: &Report) -> u8 {
    let url = report.target.split(['?', '#']).next().unwrap_or_default();
    let name = if report.is_command { "a command" } else { url };
    let weights = weights(asked).into_iter().filter_map(|(name, value)| Some(format!(" {name} {}", value?)));
    let run = format!("hookproof receiver --profile {}{}", report.profile, weights.collect::<String>());
    let runs: Vec<String> = std::iter::once(run).chain(report.remarks()).collect();
    let is_bad = report.interrupted || report.exit_code() != 0;
    let unsound = is_bad.then(|| report.summary()).into_iter().collect();
    let profile_sha256 = asked.whom.profile.definition().digest();
    let subject = Subject { side: Side::Receiver, name, runs: &runs, profile_sha256, unsound };
    asked.standards.grade(&subject, &seen_of_receiver(report), asked.output.json_shown())
}

fn settings(asked: &ReceiverArgs) -> Result<Settings, Unusable> {
    let ReceiverArgs { whom, probes, weighing, .. } = asked;
    let target = match (&asked.url, &probes.exec) {
        (Some(url), _) => whom.target(url)?,
        (None, Some(command)) => Target::command(command, format!("--exec {}", word(command))),
        (None, None) => return Err(Unusable("expected a URL, or --exec with a command".to_owned())),
    };
    let effects = probes.effects_url.as_deref().map(Target::parse).transpose()?;
    let retired = probes.retired_secret_env.as_deref().map(|name| secret(whom.profile, name)).transpose()?;
    let verify_token =
        probes.verify_token_env.as_deref().map(|name| verify_token(whom.profile, name)).transpose()?;
    let mut known = weighing.known.as_deref().map(known).transpose()?.unwrap_or_default();
    known.library = weighing.library.as_deref().map(|name| Library::find(name, whom.profile)).transpose()?;
    Ok(Settings {
        target,
        profile: whom.profile,
        secret: secret(whom.profile, &whom.secret_env)?,
        retired,
        verify_token,
        tolerance_seconds: match weighing.tolerance {
            Some(given) => i64::try_from(given.as_secs())?,
            None => whom.profile.tolerance_seconds().unwrap_or(Settings::TOLERANCE_SECONDS),
        },
        bodies: bodies(whom.profile, weighing.bodies)?,
        timeout: weighing.timeout,
        slow_limit: weighing.slow_timeout,
        hooks: Hooks {
            effects,
            restart: probes.restart_command.clone(),
            break_it: probes.break_command.clone(),
            mend: probes.mend_command.clone(),
        },
        selection: selection(asked)?,
        known,
        strict: weighing.strict,
        again: again(asked),
    })
}

fn bodies(profile: Profile, bodies: Bodies) -> Result<Bodies, Unusable> {
    if bodies != Bodies::All && !profile.signs_forms() {
        return Err(Unusable(format!(
            "--bodies: the bodies of {profile} are JSON alone; expected it only where forms are signed, as by twilio"
        )));
    }
    Ok(bodies)
}

fn selection(asked: &ReceiverArgs) -> Result<Selection, Unusable> {
    let ReceiverArgs { probes, weighing, .. } = asked;
    for need in &weighing.without {
        let is_given = match need {
            Need::Effects => probes.effects_url.is_some(),
            Need::Restart => probes.restart_command.is_some(),
            Need::Failure => probes.break_command.is_some(),
            Need::Retired => probes.retired_secret_env.is_some(),
            Need::Handshake => probes.verify_token_env.is_some(),
        };
        if is_given {
            let (word, option) = (need.word(), need.option());
            return Err(Unusable(format!("--without {word} leaves out the cases of {option}; found both")));
        }
    }
    let options = weighing.without.iter().map(|need| need.name());
    let options: Vec<&str> = options.chain(probes.exec.is_some().then_some(SERVER)).collect();
    let selection = Selection::new(catalogue::receiver(), &weighing.only, &weighing.skip)?;
    Ok(selection.without(catalogue::receiver(), &options))
}

/// The options that repeat a case, without its selection.
fn again(asked: &ReceiverArgs) -> String {
    let ReceiverArgs { whom, probes, weighing, .. } = asked;
    let options = [
        ("--profile", Some(whom.profile.to_string())),
        ("--secret-env", Some(whom.secret_env.clone())),
        ("--retired-secret-env", probes.retired_secret_env.clone()),
        ("--verify-token-env", probes.verify_token_env.clone()),
        ("--effects-url", probes.effects_url.clone()),
        ("--restart-command", probes.restart_command.clone()),
        ("--break-command", probes.break_command.clone()),
        ("--mend-command", probes.mend_command.clone()),
    ];
    let options = options
        .into_iter()
        .chain(weights(asked))
        .filter_map(|(name, value)| Some(format!("{name} {}", word(&value?))));
    let flags = [("--strict", weighing.strict), ("--i-own-this-endpoint", whom.i_own_this_endpoint)];
    let flags = flags.into_iter().filter(|(_, given)| *given).map(|(name, _)| name.to_owned());
    options.chain(flags).collect::<Vec<_>>().join(" ")
}

/// The options that change what a pass means.
fn weights(asked: &ReceiverArgs) -> [(&'static str, Option<String>); 5] {
    let length = |length: Duration| Some(format!("{}ms", length.as_millis()));
    let unless = |default: Duration, given: Duration| length(given).filter(|_| given != default);
    let weighing = &asked.weighing;
    let bodies = weighing.bodies.to_possible_value().filter(|_| weighing.bodies != Bodies::All);
    [
        ("--library", weighing.library.clone()),
        ("--bodies", bodies.map(|bodies| bodies.get_name().to_owned())),
        ("--tolerance", weighing.tolerance.and_then(length)),
        ("--timeout", unless(Settings::TIMEOUT, weighing.timeout)),
        ("--slow-timeout", unless(Settings::SLOW_LIMIT, weighing.slow_timeout)),
    ]
}

/// One word of a command line, quoted where the shell needs it.
fn word(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) { text.to_owned() } else { quoted(text.as_bytes()) }
}

impl ReceiverTarget {
    /// Only on this machine, or with the user's confirmation.
    pub(super) fn target(&self, url: &str) -> Result<Target, Unusable> {
        let target = Target::parse(url)?;
        let here = target.host == "localhost"
            || target.host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
        if here || self.i_own_this_endpoint {
            return Ok(target);
        }
        Err(Unusable(format!(
            "{} is not on this machine; add --i-own-this-endpoint if you may send attacks to it",
            target.url
        )))
    }
}

/// The environment keeps a secret out of shell history and process lists.
fn variable(name: &str, due: &str) -> Result<String, Unusable> {
    std::env::var(name).map_err(|error| {
        let what = match error {
            std::env::VarError::NotPresent => "is not set",
            std::env::VarError::NotUnicode(_) => "is not UTF-8",
        };
        Unusable(format!("the environment variable {name} {what}; expected the receiver's {due} in it"))
    })
}

fn verify_token(profile: Profile, name: &str) -> Result<String, Unusable> {
    if !profile.handshake().is_some_and(Handshake::has_token) {
        return Err(Unusable(format!(
            "no token proves a handshake of {profile}; expected --verify-token-env only where one does, such as with --profile meta"
        )));
    }
    let token = variable(name, "verify token")?;
    if token.is_empty() {
        return Err(Unusable(format!(
            "the environment variable {name} is empty; expected the receiver's verify token in it"
        )));
    }
    Ok(token)
}

pub(super) fn secret(profile: Profile, name: &str) -> Result<Secret, Unusable> {
    let text = variable(name, "secret")?;
    Secret::parse(profile, &text)
        .map_err(|error| Unusable(format!("the environment variable {name}: {error}")))
}

fn profiles() -> String {
    format!(
        "How it verifies them: {}, or a file with a profile of your own (NAME.toml)",
        Profile::names().collect::<Vec<_>>().join(", ")
    )
}

/// A profile by its name, or by a file that ends in `.toml`.
fn profile(text: &str) -> Result<Profile, String> {
    if Path::new(text).extension().is_none_or(|end| end != "toml") {
        return text.parse().map_err(|error| format!("{error}, or a file that ends in .toml"));
    }
    let written = std::fs::read_to_string(text).map_err(|error| format!("{text}: {error}"))?;
    Profile::parse(text, &written).map_err(|error| DriverFile::problem(text, &written, &error).to_string())
}

fn known(path: &Path) -> Result<Known, Unusable> {
    let failed = |error: &dyn std::fmt::Display| Unusable(format!("cannot read {}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
    Known::parse(&text, &suite::today()).map_err(|error| failed(&error))
}

pub(super) fn length(text: &str) -> Result<Duration, String> {
    text.parse::<quantity::Duration>().map(|length| Duration::from_nanos(length.nanos()))
}

async fn watched(settings: &Settings) -> Result<Report, Stopped> {
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new(0) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    let (seen, clock) = (std::cell::RefCell::new(Report::new(settings)), Clock::begun());
    let step = |step: Step<'_>| match step {
        Step::Waits => bar.set_message("waiting for the receiver"),
        Step::Begins(count) => bar.set_length(count as u64),
        Step::Sends(id) => bar.set_message(id.to_owned()),
        Step::Came(row) => {
            seen.borrow_mut().rows.push(row.clone());
            bar.inc(1);
        }
    };
    let report = tokio::select! {
        // Polled first, so that the handler exists before the first request.
        biased;
        () = interrupt_requested() => Ok(Report { interrupted: true, ..seen.replace(Report::new(settings)) }),
        report = suite::run(settings, step) => report,
    };
    bar.finish_and_clear();
    report.map(|mut report| {
        report.seconds = Duration::from_nanos(clock.now()).as_secs_f64();
        report.sort();
        report
    })
}

/// Prints the report, and writes all requested files even if one fails.
fn hand_over(report: &Report, output: &Output) -> Result<(), String> {
    let told = ReportWithCounts {
        report,
        causes: report.stories(),
        counts: report.counts(),
        exit_code: report.exit_code(),
    };
    let json = serde_json::to_string_pretty(&told).map_err(|error| error.to_string())?;
    let stdout = std::io::stdout();
    let colours = Colours::of(stdout.is_terminal());
    let text = if output.json_shown() { json.clone() + "\n" } else { report.table(colours) };
    let _closed = stdout.lock().write_all(text.as_bytes());
    let paged = output.page().as_ref().map_or(Ok(()), |page| {
        write(page, &report.page())?;
        print_stderr(format_args!("report: {}", page.display()));
        Ok(())
    });
    paged.and(report.junit().and_then(|junit| output.write_files(&junit, &json)))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

#[derive(serde::Serialize)]
struct ReportWithCounts<'a> {
    #[serde(flatten)]
    report: &'a Report,
    causes: Vec<suite::Story<'a>>,
    counts: suite::Counts,
    exit_code: u8,
}
