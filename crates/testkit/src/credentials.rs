//! Who may talk to a cluster: its certificate authority, its signing keys, and one token a user.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose};

/// Users of a test cluster. Each has a token of its own, so that the audit log and RBAC can tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum User {
    /// The person at the terminal, or the test itself. May do everything.
    Admin,
    /// kube-controller-manager. May do everything.
    ControllerManager,
    /// The dispatcher under test. May do everything.
    Dispatcher,
    /// A dispatcher of another name beside the one under test. May do everything.
    OtherDispatcher,
    /// A Kueue, of this cluster or of another one. May do everything.
    Kueue,
    /// The scripted node, see [`crate::PodRunner`]. May do everything.
    PodRunner,
    /// Has no rights until a test binds a role to it.
    Restricted,
}

impl User {
    pub(crate) const ALL: [Self; 7] = [
        Self::Admin,
        Self::ControllerManager,
        Self::Dispatcher,
        Self::OtherDispatcher,
        Self::Kueue,
        Self::PodRunner,
        Self::Restricted,
    ];

    /// The name by which RBAC and the audit log know the user.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::ControllerManager => "system:kube-controller-manager",
            Self::Dispatcher => "dispatcher",
            Self::OtherDispatcher => "other-dispatcher",
            Self::Kueue => "kueue",
            Self::PodRunner => "pod-runner",
            Self::Restricted => "restricted",
        }
    }

    const fn group(self) -> &'static str {
        match self {
            Self::Restricted => "testkit:restricted",
            _ => "system:masters",
        }
    }
}

/// The secrets of one cluster.
pub(crate) struct Credentials {
    pub(crate) ca_certificate: String,
    pub(crate) serving_certificate: String,
    pub(crate) serving_key: String,
    /// Signs the tokens of service accounts.
    pub(crate) service_account_key: String,
    pub(crate) service_account_public_key: String,
    tokens: BTreeMap<User, String>,
}

impl Credentials {
    pub(crate) fn generate() -> Result<Self, CredentialsError> {
        let ca_key = KeyPair::generate()?;
        let mut ca = CertificateParams::new(Vec::new())?;
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let ca_certificate = ca.self_signed(&ca_key)?.pem();

        let serving_key = KeyPair::generate()?;
        let mut serving = CertificateParams::new(["127.0.0.1", "localhost"].map(str::to_owned))?;
        serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let serving_certificate = serving.signed_by(&serving_key, &Issuer::from_params(&ca, &ca_key))?.pem();

        let service_account_key = KeyPair::generate()?;
        let tokens = User::ALL.into_iter().map(|user| Ok((user, random_token()?)));
        Ok(Self {
            ca_certificate,
            serving_certificate,
            serving_key: serving_key.serialize_pem(),
            service_account_public_key: service_account_key.public_key_pem(),
            service_account_key: service_account_key.serialize_pem(),
            tokens: tokens.collect::<io::Result<_>>()?,
        })
    }

    /// What `kube-apiserver --token-auth-file` reads: token, user, uid, groups.
    pub(crate) fn token_file(&self) -> String {
        let line = |(user, token): (&User, &String)| format!("{token},{0},{0},\"{1}\"\n", user.name(), user.group());
        self.tokens.iter().map(line).collect()
    }

    /// A kubeconfig that carries everything in itself: no paths, no plugins.
    pub(crate) fn kubeconfig(&self, cluster: &str, server: &str, user: User) -> String {
        let ca = BASE64_STANDARD.encode(&self.ca_certificate);
        let token = self.tokens.get(&user).map_or("", String::as_str);
        let user = user.name();
        format!(
            "apiVersion: v1\n\
             kind: Config\n\
             current-context: {cluster}\n\
             clusters:\n\
             - name: {cluster}\n  cluster:\n    server: {server}\n    certificate-authority-data: {ca}\n\
             users:\n\
             - name: {user}\n  user:\n    token: {token}\n\
             contexts:\n\
             - name: {cluster}\n  context:\n    cluster: {cluster}\n    user: {user}\n"
        )
    }
}

/// Why no credentials could be made.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A key or certificate could not be generated.
    #[error("generating keys and certificates: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The system gave no random bytes.
    #[error("reading random bytes for tokens: {0}")]
    Random(#[from] io::Error),
}

fn random_token() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

/// Writes a file that only its owner can read.
pub(crate) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::config::Kubeconfig;

    #[test]
    fn every_user_has_a_token_and_only_the_restricted_one_is_no_master() {
        let credentials = Credentials::generate().unwrap();
        let lines: Vec<String> = credentials.token_file().lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), User::ALL.len());
        let powerless: Vec<&String> = lines.iter().filter(|line| !line.contains("system:masters")).collect();
        assert_eq!(powerless.len(), 1);
        assert!(powerless[0].contains(",restricted,"));
    }

    #[test]
    fn a_kubeconfig_names_the_user_and_carries_the_token() {
        let credentials = Credentials::generate().unwrap();
        let text = credentials.kubeconfig("eu-1", "https://127.0.0.1:20000", User::Dispatcher);
        let kubeconfig = Kubeconfig::from_yaml(&text).unwrap();
        assert_eq!(kubeconfig.current_context.as_deref(), Some("eu-1"));
        assert_eq!(kubeconfig.auth_infos[0].name, "dispatcher");
        let auth = kubeconfig.auth_infos[0].auth_info.as_ref().unwrap();
        assert!(auth.token.is_some() && auth.token_file.is_none());
    }
}
