//! Credentials of one embedded cluster, and the kubeconfig made from them.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What every server certificate is for.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Why credentials could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The certificates could not be made.
    #[error("cannot make the certificates of the embedded API server: {0}")]
    Certificate(#[from] rcgen::Error),
    /// Stored credentials cannot be used for TLS.
    #[error("the stored credentials of the embedded API server are unusable, remove them to get new ones: {0}")]
    Unusable(String),
    /// The listener is not usable.
    #[error("cannot listen for the embedded API server: {0}")]
    Listen(std::io::Error),
    /// Others than this machine could reach it, and nobody said that they may.
    #[error(
        "{0} is reachable from other machines: bind the embedded API server to 127.0.0.1 or ::1, or serve it beyond loopback on purpose"
    )]
    BeyondLoopback(SocketAddr),
}

/// The secrets of one cluster: a CA of its own, a server certificate, and for its one user a bearer token and a client
/// certificate. Serializable, so that a cluster keeps them over restarts; whoever stores them must keep the file private
/// (mode 0600).
#[derive(Clone, Serialize, Deserialize)]
pub struct Credentials {
    ca_certificate: String,
    certificate: String,
    key: String,
    token: String,
    client_certificate: String,
    client_key: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl Credentials {
    /// Fresh credentials for a server on loopback. Keys and token come from the operating system, not from the seed of
    /// the server.
    pub fn generate() -> Result<Self, AccessError> {
        Self::generate_for(&[])
    }

    /// The same for a server that is also called by these names or addresses.
    pub fn generate_for(names: &[&str]) -> Result<Self, AccessError> {
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        ca.distinguished_name.push(DnType::CommonName, "jobferry embedded cluster");
        let ca_key = KeyPair::generate()?;
        let ca_certificate = ca.self_signed(&ca_key)?;
        // Its key ends here: nobody can issue a third certificate.
        let issuer = Issuer::new(ca, ca_key);

        let mut server =
            CertificateParams::new(LOOPBACK.iter().chain(names).map(ToString::to_string).collect::<Vec<_>>())?;
        server.distinguished_name.push(DnType::CommonName, "jobferry embedded API server");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let certificate = server.signed_by(&key, &issuer)?;

        let mut client = CertificateParams::default();
        client.distinguished_name.push(DnType::CommonName, "admin");
        client.distinguished_name.push(DnType::OrganizationName, "system:masters");
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        client.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let client_key = KeyPair::generate()?;
        let client_certificate = client.signed_by(&client_key, &issuer)?;

        // A private key nobody uses is 32 bytes of the system's randomness, by way of the library we have anyway.
        let token = BASE64.encode(&KeyPair::generate()?.serialize_der()[32..64]).replace(['+', '/', '='], "");
        Ok(Self {
            ca_certificate: ca_certificate.pem(),
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            token,
            client_certificate: client_certificate.pem(),
            client_key: client_key.serialize_pem(),
        })
    }

    /// The bearer token of the cluster's administrator.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// How clients reach a server with these credentials at `address`.
    pub fn access(&self, address: SocketAddr) -> Access {
        Access {
            server: format!("https://{address}"),
            ca_certificate: self.ca_certificate.clone(),
            token: self.token.clone(),
            client_certificate: self.client_certificate.clone(),
            client_key: self.client_key.clone(),
        }
    }

    pub(super) fn tls(&self) -> Result<Arc<ServerConfig>, AccessError> {
        let unusable = |error: &dyn std::fmt::Display| AccessError::Unusable(error.to_string());
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(self.certificate.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|error| unusable(&error))?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(|error| unusable(&error))?;
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_slice(self.ca_certificate.as_bytes()).map_err(|error| unusable(&error))?;
        roots.add(ca).map_err(|error| unusable(&error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        // Who shows no certificate needs the token; one that is not ours ends the handshake.
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()
            .map_err(|error| unusable(&error))?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(&error))?
            .with_client_cert_verifier(clients)
            .with_single_cert(chain, key)
            .map_err(|error| unusable(&error))?;
        Ok(Arc::new(config))
    }
}

/// The way into a served cluster.
#[derive(Clone)]
pub struct Access {
    server: String,
    ca_certificate: String,
    token: String,
    client_certificate: String,
    client_key: String,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Access {
    /// A kubeconfig with everything inline, its user known by the token. Cluster, user and context are all called `name`.
    pub fn kubeconfig(&self, name: &str) -> String {
        self.kubeconfig_of(name, &json!({"token": self.token}))
    }

    /// The same with the client certificate instead of the token.
    pub fn kubeconfig_with_certificate(&self, name: &str) -> String {
        let user = json!({"client-certificate-data": BASE64.encode(&self.client_certificate),
            "client-key-data": BASE64.encode(&self.client_key)});
        self.kubeconfig_of(name, &user)
    }

    fn kubeconfig_of(&self, name: &str, user: &Value) -> String {
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {
                "server": self.server, "certificate-authority-data": BASE64.encode(&self.ca_certificate)}}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        });
        format!("{config:#}\n")
    }

    /// The address of the server, `https://127.0.0.1:6443`.
    pub fn server(&self) -> &str {
        &self.server
    }
}
