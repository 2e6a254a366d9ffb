//! The certificates of the endpoints: a right one, and those that a sender must refuse.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hookproof_judge::scenario::quantity::Day;
use hookproof_judge::scenario::{Certificate, SECOND};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

use super::reach::{Reach, Tls};
use crate::clock::Clock;

pub(super) const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";
/// Longer than any run.
const GOOD_FOR_DAYS: u64 = 90;
/// A handshake carries at most 64 KiB of certificate.
const HOSTS_MAX: usize = 200;
const CA_FILE: &str = "ca.pem";
/// A wrong clock, of the sender or of a fault, makes an expired certificate not right.
const EXPIRED_DAYS: u64 = 30;
/// Another name too: some verifiers find an issuer by its name, and then report a wrong signature.
const UNKNOWN: &str = "An authority that no sender trusts";
const OTHER_HOST: &str = "elsewhere.invalid";

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{path} cannot be used: {why}", path = path.display())]
    Given { path: PathBuf, why: String },
    #[error("no certificate could be made for the endpoints: {0}")]
    Made(String),
    #[error("{path} cannot be written: {error}", path = path.display())]
    Unwritten { path: PathBuf, error: std::io::Error },
}

#[derive(Clone)]
pub struct Identity {
    pub(super) acceptor: TlsAcceptor,
    /// None without an authority of the run.
    pub(super) wrong: BTreeMap<Certificate, TlsAcceptor>,
    trust: PathBuf,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("trust", &self.trust).finish_non_exhaustive()
    }
}

impl Identity {
    /// None without TLS. Writes a run's authority into its folder, but never its key.
    ///
    /// Fails when a file can't be used or written.
    pub fn of(reach: &Reach, names: &[&str], folder: &Path, clock: &Clock) -> Result<Option<Self>, TlsError> {
        match &reach.tls {
            Tls::None => Ok(None),
            Tls::Given { certificate, key } => load_identity(certificate, key).map(Some),
            Tls::OfTheRun => {
                let made = make(hosts(reach, names), clock.unix_ns(clock.now()) / SECOND / 86_400);
                let (configs, authority) = made.map_err(TlsError::Made)?;
                let (config, wrong) = configs;
                let path = folder.join(CA_FILE);
                let unwritten = |error| TlsError::Unwritten { path: path.clone(), error };
                std::fs::write(&path, authority).map_err(unwritten)?;
                let trust = std::path::absolute(&path).map_err(unwritten)?;
                let wrong = wrong.into_iter().map(|(certificate, config)| (certificate, acceptor(config)));
                Ok(Some(Self { acceptor: acceptor(config), wrong: wrong.collect(), trust }))
            }
        }
    }

    /// The sender must trust it.
    #[must_use]
    pub fn trust(&self) -> &Path {
        &self.trust
    }
}

/// Many hosts become one wildcard: each name is one label.
fn hosts(reach: &Reach, names: &[&str]) -> Vec<String> {
    let Some(public) = &reach.public else { return vec![reach.address().ip().to_string()] };
    let mut hosts: Vec<String> = names.iter().map(|name| public.host(name)).collect();
    hosts.sort_unstable();
    hosts.dedup();
    if hosts.len() > HOSTS_MAX {
        return vec![public.host("*")];
    }
    hosts.into_iter().map(|host| host.trim_matches(['[', ']']).to_owned()).collect()
}

fn acceptor(mut config: ServerConfig) -> TlsAcceptor {
    config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

fn config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    versions.with_no_client_auth().with_single_cert(chain, key)
}

fn load_identity(certificate: &Path, key_file: &Path) -> Result<Identity, TlsError> {
    let wrong = |path: &Path, why: &dyn std::fmt::Display| TlsError::Given {
        path: path.to_owned(),
        why: why.to_string(),
    };
    let chain = CertificateDer::pem_file_iter(certificate).map_err(|error| wrong(certificate, &error))?;
    let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(|error| wrong(certificate, &error))?;
    let key = PrivateKeyDer::from_pem_file(key_file).map_err(|error| wrong(key_file, &error))?;
    let config = config(chain, key).map_err(|error| wrong(certificate, &error))?;
    let trust = std::path::absolute(certificate).map_err(|error| wrong(certificate, &error))?;
    Ok(Identity { acceptor: acceptor(config), wrong: BTreeMap::new(), trust })
}

type Configs = (ServerConfig, Vec<(Certificate, ServerConfig)>);
type Issuer = CertifiedIssuer<'static, KeyPair>;

/// Also returns the authority's certificate.
fn make(hosts: Vec<String>, today: u64) -> Result<(Configs, String), String> {
    let name = format!("Hookproof, for one run, {}", Day(today));
    let (root, unknown) = (authority(&name, today)?, authority(UNKNOWN, today)?);
    // From yesterday, since clocks differ.
    let now = (today.saturating_sub(1), today.saturating_add(GOOD_FOR_DAYS));
    let past = (today.saturating_sub(2 * GOOD_FOR_DAYS), today.saturating_sub(EXPIRED_DAYS));
    let issue = |hosts: &[String], valid: Days, by: Option<&Issuer>| issue(hosts.to_vec(), valid, by);
    let mut wrong = Vec::new();
    for certificate in Certificate::ALL {
        wrong.push((
            certificate,
            match certificate {
                Certificate::Expired => issue(&hosts, past, Some(&root)),
                Certificate::OtherName => issue(&[OTHER_HOST.to_owned()], now, Some(&root)),
                Certificate::UnknownAuthority => issue(&hosts, now, Some(&unknown)),
                Certificate::SelfSigned => issue(&hosts, now, None),
            }?,
        ));
    }
    Ok(((issue(&hosts, now, Some(&root))?, wrong), root.pem()))
}

fn authority(name: &str, today: u64) -> Result<Issuer, String> {
    let text = |error: rcgen::Error| error.to_string();
    let mut root = CertificateParams::new(Vec::new()).map_err(text)?;
    root.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    root.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    root.distinguished_name.push(DnType::CommonName, name);
    bound(&mut root, (today.saturating_sub(2 * GOOD_FOR_DAYS), today.saturating_add(GOOD_FOR_DAYS)));
    CertifiedIssuer::self_signed(root, KeyPair::generate().map_err(text)?).map_err(text)
}

/// Without an issuer the certificate is its own.
fn issue(hosts: Vec<String>, valid: Days, by: Option<&Issuer>) -> Result<ServerConfig, String> {
    let text = |error: rcgen::Error| error.to_string();
    let mut own = CertificateParams::new(hosts).map_err(text)?;
    own.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    own.use_authority_key_identifier_extension = by.is_some();
    own.distinguished_name.push(DnType::CommonName, "Hookproof's endpoints");
    bound(&mut own, valid);
    let key = KeyPair::generate().map_err(text)?;
    let own = by.map_or_else(|| own.self_signed(&key), |by| own.signed_by(&key, by)).map_err(text)?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    config(vec![own.der().clone()], key).map_err(|error| error.to_string())
}

/// The first day, and the day after the last.
type Days = (u64, u64);

fn bound(params: &mut CertificateParams, (first, end): Days) {
    // `civil` returns valid months and days.
    let moment = |day: u64| {
        let ((year, month, day), small) = (Day(day).civil(), |number: u64| u8::try_from(number).unwrap_or(1));
        rcgen::date_time_ymd(i32::try_from(year).unwrap_or(i32::MAX), small(month), small(day))
    };
    (params.not_before, params.not_after) = (moment(first), moment(end));
}
