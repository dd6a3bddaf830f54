//! Certificates that a test makes for its server, and the authority that issues them.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// A certificate authority that only its test trusts.
pub struct TestAuthority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate.
    pub pem: String,
}

/// A certificate and its private key, both in PEM.
pub struct TestCertificate {
    pub certificate: String,
    pub key: String,
}

impl Default for TestAuthority {
    fn default() -> TestAuthority {
        let key = new_key();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).expect("a certificate").pem();
        TestAuthority { issuer: Issuer::new(params, key), pem }
    }
}

impl TestAuthority {
    /// Issues a certificate for these host names and addresses.
    pub fn issue(&self, names: &[&str]) -> TestCertificate {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let (params, key) = (CertificateParams::new(names).expect("host names"), new_key());
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        TestCertificate { certificate, key: key.serialize_pem() }
    }
}

fn new_key() -> KeyPair {
    KeyPair::generate().expect("a key")
}
