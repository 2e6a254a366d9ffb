//! A subscriber's own authorities and its client certificate: PEM files, of which only the paths are stored and shown.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::Read as _;
use std::ops::RangeInclusive;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SigningKey, SingleCertAndKey};
use sha2::{Digest as _, Sha256};
use zeroize::{Zeroize as _, Zeroizing};

use crate::store::roots::{Roots, RootsError};
use hookproof_words::ids::size;

const FILE_BYTES_MAX: u64 = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Replaces the built-in roots.
    pub ca: Option<PemFile>,
    pub identity: Option<(PemFile, PemFile)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PemFile {
    pub setting: &'static str,
    pub path: Box<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} {problem}: {}", .file.setting, .file.path)]
pub struct TlsFileError {
    pub file: PemFile,
    pub problem: Box<str>,
}

pub struct Contents {
    ca: Option<Pem>,
    identity: Option<(Pem, Pem)>,
}

struct Pem {
    file: PemFile,
    bytes: Zeroizing<Vec<u8>>,
}

impl TlsFiles {
    pub const PATH_BYTES: RangeInclusive<usize> = 2..=255;

    /// Whether they can be used for this URL now.
    pub fn check(&self, url: &str) -> Result<(), TlsFileError> {
        let first = self.ca.as_ref().or(self.identity.as_ref().map(|(certificate, _)| certificate));
        if let Some(file) = first.filter(|_| !url.starts_with("https://")) {
            return Err(file.unfit("has no effect on a URL that does not begin with https://"));
        }
        self.read()?.config(&Roots::default()).map(drop)
    }

    pub fn read(&self) -> Result<Contents, TlsFileError> {
        let identity =
            self.identity.as_ref().map(|(certificate, key)| Ok((certificate.read()?, key.read()?)));
        let ca = self.ca.as_ref().map(PemFile::read).transpose()?;
        Ok(Contents { ca, identity: identity.transpose()? })
    }
}

impl PemFile {
    fn read(&self) -> Result<Pem, TlsFileError> {
        let unreadable = |problem: &dyn Display| {
            self.unfit(&format!("cannot be read ({problem}); expected a PEM file that the sender may read"))
        };
        let failed = |error: std::io::Error| unreadable(&error);
        let found = fs::metadata(&*self.path).map_err(failed)?;
        // A pipe could block for ever.
        if !found.is_file() {
            return Err(unreadable(&"it is no file"));
        }
        let room = usize::try_from(found.len().min(FILE_BYTES_MAX) + 1).unwrap_or_default();
        let mut bytes = Zeroizing::new(Vec::with_capacity(room));
        let file = File::open(&*self.path).map_err(failed)?;
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
        if size(bytes.len()) > FILE_BYTES_MAX {
            return Err(unreadable(&"it is longer than 1 MiB"));
        }
        Ok(Pem { file: self.clone(), bytes })
    }

    fn unfit(&self, problem: &str) -> TlsFileError {
        TlsFileError { file: self.clone(), problem: problem.into() }
    }
}

impl Contents {
    pub fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let (certificate, key) = self.identity.as_ref().map(|(certificate, key)| (certificate, key)).unzip();
        for part in [self.ca.as_ref(), certificate, key] {
            // Parts of other lengths are other contents, and so is one that is left out.
            hash.update(part.map_or(u64::MAX, |pem| size(pem.bytes.len())).to_be_bytes());
            hash.update(part.map_or(&[][..], |pem| &pem.bytes[..]));
        }
        hash.finalize().into()
    }

    /// `roots`: trusted without authorities of its own.
    pub fn config(&self, roots: &Roots) -> Result<ClientConfig, TlsFileError> {
        let roots = self.ca.as_ref().map_or_else(|| Ok(roots.clone()), Pem::authorities)?;
        let mut config = roots.config();
        if let Some((chain, key)) = &self.identity {
            config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(certified(chain, key)?));
        }
        Ok(config)
    }
}

impl Pem {
    fn authorities(&self) -> Result<Roots, TlsFileError> {
        Roots::none().with_pem(&self.bytes).map_err(|error| {
            let problem = match error {
                RootsError::None => "holds no certificate".to_owned(),
                // The parser may quote a key.
                RootsError::Unfit { number, .. } => {
                    format!("holds a certificate, number {number}, that cannot be used")
                }
            };
            self.file.unfit(&format!("{problem}; expected certificates of authorities in PEM"))
        })
    }

    fn chain(&self) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
        let chain = CertificateDer::pem_slice_iter(&self.bytes).collect::<Result<Vec<_>, _>>();
        chain
            .ok()
            .filter(|chain| !chain.is_empty())
            .ok_or_else(|| self.no_chain("holds no readable certificate"))
    }

    fn no_chain(&self, problem: &str) -> TlsFileError {
        self.file.unfit(&format!("{problem}; expected the client certificate and its chain in PEM"))
    }

    /// Errors of the parser may quote the file, so they stay unsaid.
    fn key(&self) -> Result<Arc<dyn SigningKey>, TlsFileError> {
        let mut key = PrivateKeyDer::from_pem_slice(&self.bytes).map_err(|_| {
            self.file.unfit("holds no readable private key; expected one in PEM without a passphrase")
        })?;
        let signing = any_supported_type(&key);
        key.zeroize();
        signing.map_err(|_| self.file.unfit("holds an unknown key; expected RSA, P-256, P-384 or Ed25519"))
    }
}

fn certified(chain: &Pem, key: &Pem) -> Result<CertifiedKey, TlsFileError> {
    let certified = CertifiedKey::new(chain.chain()?, key.key()?);
    match certified.keys_match() {
        Ok(()) => Ok(certified),
        Err(rustls::Error::InconsistentKeys(_)) => {
            Err(key.file.unfit("is another key than that of the first certificate in tls.certificate"))
        }
        Err(error) => Err(chain.no_chain(&format!("cannot be used ({error})"))),
    }
}
