//! TLS of the gRPC servers, and who may connect.

use std::path::{Path, PathBuf};

use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};

use crate::connections::FIRST_CALL;

/// The files that TLS needs, all of them in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, with the chain to its root if there is one.
    pub certificate: PathBuf,
    /// Private key of the certificate.
    pub key: PathBuf,
    /// Clients must show a certificate that this authority has signed (mutual TLS).
    pub client_authority: Option<PathBuf>,
}

/// Reasons why certificate and key cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each is")]
pub enum TlsError {
    #[error("cannot read the {what} {}: {problem}", path.display())]
    File {
        what: &'static str,
        path: PathBuf,
        problem: std::io::Error,
    },
    #[error("{} is not PEM: expected a line \"-----BEGIN {expected}\"", path.display())]
    NotPem {
        path: PathBuf,
        expected: &'static str,
    },
    #[error(
        "the certificate {} and the private key {} cannot be used: {problem}; give the key that the \
         certificate was made with, both as they were written",
        certificate.display(),
        key.display()
    )]
    Unusable {
        certificate: PathBuf,
        key: PathBuf,
        problem: String,
    },
}

impl TlsFiles {
    /// Reads the files and checks that they fit together.
    pub fn load(&self) -> Result<ServerTlsConfig, TlsError> {
        let certificate = read("certificate", &self.certificate, "CERTIFICATE")?;
        let key = read("private key", &self.key, "")?;
        let mut config = ServerTlsConfig::new()
            .identity(Identity::from_pem(certificate, key))
            .timeout(FIRST_CALL);
        if let Some(path) = &self.client_authority {
            let authority = read("certificate of the authority", path, "CERTIFICATE")?;
            config = config.client_ca_root(Certificate::from_pem(authority));
        }
        // Nobody looks into the files before a server is made with them.
        let tried = Server::builder().tls_config(config.clone());
        match tried {
            Ok(_) => Ok(config),
            Err(error) => Err(TlsError::Unusable {
                certificate: self.certificate.clone(),
                key: self.key.clone(),
                problem: innermost(&error),
            }),
        }
    }
}

/// The error that caused all others, which only say that there was one.
fn innermost(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => innermost(source),
        None => error.to_string(),
    }
}

fn read(what: &'static str, path: &Path, expected: &'static str) -> Result<Vec<u8>, TlsError> {
    let path = path.to_owned();
    let text = ebb_files::read(&path).map_err(|problem| TlsError::File {
        what,
        path: path.clone(),
        problem,
    })?;
    let begin = format!("-----BEGIN {expected}").into_bytes();
    match text.windows(begin.len()).any(|part| part == begin) {
        true => Ok(text),
        false => Err(TlsError::NotPem { path, expected }),
    }
}
