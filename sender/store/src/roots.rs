//! Trusted certificates, for endpoints and for a PostgreSQL server.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::{ClientConfig, RootCertStore};

/// The roots that browsers trust, compiled in so that machines do not differ, and optional extra ones.
#[derive(Clone, Debug)]
pub struct Roots(Arc<RootCertStore>);

impl Default for Roots {
    fn default() -> Self {
        Self(Arc::new(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() }))
    }
}

impl Roots {
    #[must_use]
    pub fn none() -> Self {
        Self(Arc::new(RootCertStore::empty()))
    }

    /// Fails when the text holds no certificate, or an unreadable one.
    pub fn with_pem(mut self, text: &[u8]) -> Result<Self, RootsError> {
        let mut count = 0;
        for certificate in CertificateDer::pem_slice_iter(text) {
            count += 1;
            let unfit = |problem: &dyn std::fmt::Display| RootsError::Unfit {
                number: count,
                problem: problem.to_string(),
            };
            let certificate = certificate.map_err(|problem: pem::Error| unfit(&problem))?;
            Arc::make_mut(&mut self.0).add(certificate).map_err(|problem| unfit(&problem))?;
        }
        if count == 0 { Err(RootsError::None) } else { Ok(self) }
    }

    #[must_use]
    pub fn config(self) -> ClientConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let versions = versions.expect("this provider speaks TLS 1.2 and 1.3");
        versions.with_root_certificates(self.0).with_no_client_auth()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RootsError {
    #[error("found no certificate among the extra roots; expected PEM with -----BEGIN CERTIFICATE-----")]
    None,
    #[error("cannot use certificate {number} of the extra roots: {problem}")]
    Unfit {
        /// Its place in the text, from 1.
        number: usize,
        problem: String,
    },
}
