//! TLS of the gRPC servers, and who may connect.

use std::path::{Path, PathBuf};

use tonic::transport::{Certificate, Identity, ServerTlsConfig};

/// Files in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, with the chain to its root if there is one.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Clients must show a certificate that this authority has signed (mutual TLS).
    pub client_authority: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read the {what} {}: {source}", path.display())]
    File {
        what: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{} is not PEM: expected a line \"-----BEGIN {expected}\"", path.display())]
    NotPem {
        path: PathBuf,
        expected: &'static str,
    },
}

impl TlsFiles {
    pub fn load(&self) -> Result<ServerTlsConfig, TlsError> {
        let certificate = read("certificate", &self.certificate, "CERTIFICATE")?;
        let key = read("private key", &self.key, "")?;
        let mut config = ServerTlsConfig::new().identity(Identity::from_pem(certificate, key));
        if let Some(path) = &self.client_authority {
            let authority = read("certificate of the authority", path, "CERTIFICATE")?;
            config = config.client_ca_root(Certificate::from_pem(authority));
        }
        Ok(config)
    }
}

fn read(what: &'static str, path: &Path, expected: &'static str) -> Result<Vec<u8>, TlsError> {
    let path = path.to_owned();
    let text = std::fs::read(&path).map_err(|source| TlsError::File {
        what,
        path: path.clone(),
        source,
    })?;
    let begin = format!("-----BEGIN {expected}").into_bytes();
    match text.windows(begin.len()).any(|part| part == begin) {
        true => Ok(text),
        false => Err(TlsError::NotPem { path, expected }),
    }
}
