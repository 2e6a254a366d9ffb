//! The options for the way to the endpoints.

use std::path::PathBuf;

use clap::Args;

use super::out::quoted;
use crate::endpoint::{Bind, PublicUrl, Reach, Tls};

/// For a sender that is not on this machine, or demands HTTPS.
#[derive(Args, Debug)]
#[command(next_help_heading = "Endpoints that the world can reach")]
pub(super) struct ReachArgs {
    /// Where endpoints listen, in place of loopback: an address of this machine, and with --public-url the port of all of them
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

    /// The options in command line form, each after a blank.
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
