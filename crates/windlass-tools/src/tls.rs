//! TLS configuration of all tools. The crypto provider is chosen here, so that a process-wide choice of another crate
//! does not matter.

use std::io;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig, SignatureScheme};

/// The certificates of servers that a client accepts.
#[derive(Clone, Debug, Default)]
pub enum AcceptedCertificates {
    /// Those of the public authorities and of the authorities that this machine trusts.
    #[default]
    Trusted,
    /// Those of more authorities as well.
    TrustedAnd(Arc<[CertificateDer<'static>]>),
    /// Any: for calls that do not leave the machine.
    Any,
}

impl AcceptedCertificates {
    /// Accepts the certificates of the authorities in a PEM file in addition.
    pub fn with_authorities(pem: &[u8]) -> io::Result<AcceptedCertificates> {
        let authorities = read_certificates(pem)?;
        let mut roots = RootCertStore::empty();
        authorities.iter().try_for_each(|one| roots.add(one.clone())).map_err(invalid_data)?;
        Ok(AcceptedCertificates::TrustedAnd(authorities.into()))
    }

    pub(crate) fn client_config(&self) -> Result<ClientConfig, Error> {
        let mut roots = match self {
            AcceptedCertificates::Any => return unverified_config(),
            AcceptedCertificates::Trusted | AcceptedCertificates::TrustedAnd(_) => root_certificates(),
        };
        if let AcceptedCertificates::TrustedAnd(authorities) = self {
            roots.add_parsable_certificates(authorities.iter().cloned());
        }
        verified_config(roots)
    }
}

/// Returns the configuration of a server with this certificate chain and private key, both in PEM.
pub fn server_config(certificates: &[u8], key: &[u8]) -> io::Result<ServerConfig> {
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| invalid_data(format!("the private key: {error}")))?;
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = builder.map_err(invalid_data)?.with_no_client_auth();
    let mut config = builder.with_single_cert(read_certificates(certificates)?, key).map_err(invalid_data)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn read_certificates(pem: &[u8]) -> io::Result<Vec<CertificateDer<'static>>> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read.map_err(|error| invalid_data(format!("the certificates: {error}")))? {
        none if none.is_empty() => Err(invalid_data("there is no certificate in PEM form")),
        certificates => Ok(certificates),
    }
}

fn invalid_data(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

pub(crate) fn verified_config(roots: RootCertStore) -> Result<ClientConfig, Error> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Accepts any certificate; only for calls that disable verification.
pub(crate) fn unverified_config() -> Result<ClientConfig, Error> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let verifier = Arc::new(AnyCertificate(provider()));
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// Returns the built-in public roots and those that this machine trusts (such as a company root). Machines without
/// roots, such as minimal containers, can still reach the public internet.
pub(crate) fn root_certificates() -> RootCertStore {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let found: Vec<CertificateDer<'static>> = rustls_native_certs::load_native_certs().certs;
    roots.add_parsable_certificates(found);
    roots
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
