//! `hookproof driver check FILE` tests a driver file before a run; and the options for the way to the endpoints.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use hookproof_judge::report::visible;

use super::interrupt::interrupts;
use super::out::{HARNESS, INTERRUPTED, USAGE, line, quoted, refuse};
use crate::driver::DriverFile;
use crate::endpoint::{Bind, PublicUrl, Reach, Tls};
use crate::rehearsal::{Options, Rehearsal, rehearse};

#[derive(Debug, Subcommand)]
pub(super) enum DriverCommand {
    /// Start its sender, subscribe, offer three events, verify the deliveries, and take all back: a minute at
    /// most
    Check(Check),
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof driver check scenarios/drivers/python/driver.toml
  ACME_TOKEN=… hookproof driver check acme.toml --json

Exit codes: 0 the driver works, 1 deliveries or signatures are wrong, 4 the sender could not be started or refused a call,
64 the file has mistakes or needs an unset variable, 70 the harness itself failed, 130 interrupted.")]
pub(super) struct Check {
    /// The driver file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    reach: ReachArgs,
    /// For machines
    #[arg(long)]
    json: bool,
}

pub(super) fn main(asked: &DriverCommand) -> ExitCode {
    let DriverCommand::Check(check) = asked;
    let file = match DriverFile::open(&check.file) {
        Ok(file) => file,
        Err(error) => return refuse("driver check", error, USAGE),
    };
    let rehearsal = match played(check, &file) {
        Ok(rehearsal) => rehearsal,
        Err((code, why)) => return refuse("driver check", why, code),
    };
    if check.json {
        match serde_json::to_string_pretty(&rehearsal) {
            Ok(text) => line(text),
            Err(error) => return refuse("driver check", error, HARNESS),
        }
    } else {
        line(visible(rehearsal.text().trim_end()));
    }
    ExitCode::from(rehearsal.code)
}

fn played(check: &Check, file: &DriverFile) -> Result<Rehearsal, (u8, String)> {
    let text = |error: &dyn std::fmt::Display| (HARNESS, error.to_string());
    let reach = check.reach.reach();
    let program = std::env::current_exe().map_err(|error| text(&error))?;
    let folder = tempfile::tempdir().map_err(|error| text(&error))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| text(&error))?;
    let options = Options { driver: &check.file, program: &program, folder: folder.path(), reach: &reach };
    let rehearsal = runtime.block_on(async {
        let interrupts = interrupts().map_err(|error| text(&error))?;
        tokio::select! {
            rehearsal = rehearse(file, options, interrupts.first) => rehearsal.map_err(|error| {
                (error.code(), error.to_string())
            }),
            _ = interrupts.second => Err((INTERRUPTED, "interrupted".to_owned())),
        }
    });
    runtime.shutdown_background();
    // The folder holds the whole log.
    if rehearsal.as_ref().is_ok_and(|rehearsal| rehearsal.code != 0) {
        let _kept = folder.keep();
    }
    rehearsal
}

/// For a sender that is not on this machine, or demands HTTPS.
#[derive(Args, Debug)]
#[command(next_help_heading = "Endpoints for senders on other machines")]
pub(super) struct ReachArgs {
    /// Where endpoints listen, in place of loopback: an address of this machine, and with --public-url the port of
    /// all of them
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    bind: Option<Bind>,
    /// The URLs of subscribers: https://hooks.example.org/{endpoint} or
    /// https://{endpoint}.hooks.example.org/. A tunnel or an ingress forwards its requests to --bind, with
    /// path and host unchanged
    #[arg(long, value_name = "URL")]
    public_url: Option<PublicUrl>,
    /// Endpoints speak TLS, HTTP/2 too, with certificates by an authority made for the run: ca.pem in the
    /// run's folder, {{ ca }} in a driver file
    #[arg(long)]
    tls: bool,
    /// Endpoints speak TLS with this PEM certificate and its issuers
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl ReachArgs {
    pub(super) fn reach(&self) -> Reach {
        let tls = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                Tls::Given { certificate: certificate.clone(), key: key.clone() }
            }
            _ if self.tls => Tls::OfTheRun,
            _ => Tls::None,
        };
        Reach { bind: self.bind, public: self.public_url.clone(), tls }
    }

    pub(super) fn written(&self) -> String {
        let bind = self.bind.map(|bind| bind.to_string());
        let file = |file: &Option<PathBuf>| file.as_ref().map(|file| file.display().to_string());
        let options = [
            ("--bind", bind),
            ("--public-url", self.public_url.as_ref().map(ToString::to_string)),
            ("--tls-cert", file(&self.tls_cert)),
            ("--tls-key", file(&self.tls_key)),
        ];
        let given = options.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let options: String = given.map(|(name, value)| format!(" {name} {}", quoted(&value))).collect();
        if self.tls { format!("{options} --tls") } else { options }
    }
}
