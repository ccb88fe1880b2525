//! What a cluster's API server wrote down about its clients.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::PathBuf;

use serde::Deserialize;

use crate::User;

/// The audit log of one cluster. Reads (get, list, watch) are recorded for [`User::Dispatcher`] and
/// [`User::Restricted`] only; writes for everyone.
#[derive(Debug, Clone)]
pub struct AuditLog {
    path: PathBuf,
}

/// A place in the log: what happened before it is not of interest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AuditMark(u64);

/// One request that was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    /// Name of the user, see [`User::name`].
    pub user: String,
    /// `create`, `patch`, `delete`, `list`, ...
    pub verb: String,
    /// `jobs`, `jobs/status`, ...; empty for requests about no resource.
    pub resource: String,
    /// Namespace, or empty.
    pub namespace: String,
    /// Name of the object; empty for a collection, and for a create whose name the server chooses.
    pub name: String,
    /// HTTP status of the answer.
    pub code: u16,
}

/// How often each user sent each kind of request, answered with success or not.
pub type AuditCounts = BTreeMap<(String, String, String), usize>;

impl AuditLog {
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// The place up to which the log has been written by now.
    pub fn mark(&self) -> io::Result<AuditMark> {
        Ok(AuditMark(self.path.metadata()?.len()))
    }

    /// Every answered request since `mark`.
    pub fn records_since(&self, mark: AuditMark) -> io::Result<Vec<AuditRecord>> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(mark.0))?;
        parse(BufReader::new(file))
    }

    /// The requests of one user since `mark`.
    pub fn records_of(&self, user: User, mark: AuditMark) -> io::Result<Vec<AuditRecord>> {
        Ok(self.records_since(mark)?.into_iter().filter(|record| record.user == user.name()).collect())
    }

    /// Counts per (user, verb, resource) since `mark`.
    pub fn counts_since(&self, mark: AuditMark) -> io::Result<AuditCounts> {
        let mut counts = AuditCounts::new();
        for record in self.records_since(mark)? {
            *counts.entry((record.user, record.verb, record.resource)).or_default() += 1;
        }
        Ok(counts)
    }
}

fn parse(log: impl Read) -> io::Result<Vec<AuditRecord>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Line {
        stage: String,
        verb: String,
        user: UserInfo,
        #[serde(default)]
        object_ref: ObjectRef,
        #[serde(default)]
        response_status: ResponseStatus,
    }
    #[derive(Deserialize)]
    struct UserInfo {
        /// Absent where a request was refused because nobody knows who sent it.
        #[serde(default)]
        username: String,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct ObjectRef {
        resource: String,
        subresource: String,
        namespace: String,
        name: String,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct ResponseStatus {
        code: u16,
    }

    let mut records = Vec::new();
    let mut log = BufReader::new(log);
    let mut text = String::new();
    while log.read_line(&mut text)? > 0 && text.ends_with('\n') {
        let line: Line = serde_json::from_str(&text)?;
        let ObjectRef { resource, subresource, namespace, name } = line.object_ref;
        // A watch is reported twice, when it starts and when it ends; one of them may be years away.
        let counted_stage = if line.verb == "watch" { "ResponseStarted" } else { "ResponseComplete" };
        if line.stage == counted_stage {
            let resource = if subresource.is_empty() { resource } else { format!("{resource}/{subresource}") };
            let code = line.response_status.code;
            records.push(AuditRecord { user: line.user.username, verb: line.verb, resource, namespace, name, code });
        }
        text.clear();
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = concat!(
        r#"{"stage":"ResponseComplete","verb":"patch","user":{"username":"dispatcher"},"objectRef":{"resource":"jobs","subresource":"status","namespace":"a","name":"train"},"responseStatus":{"code":200}}"#,
        "\n",
        r#"{"stage":"ResponseStarted","verb":"watch","user":{"username":"dispatcher"},"objectRef":{"resource":"jobs"},"responseStatus":{"code":200}}"#,
        "\n",
        r#"{"stage":"ResponseComplete","verb":"watch","user":{"username":"dispatcher"},"objectRef":{"resource":"jobs"},"responseStatus":{"code":200}}"#,
        "\n",
        r#"{"stage":"ResponseComplete","verb":"get","user":{"username":"restricted"},"requestURI":"/version"}"#,
        "\n",
        r#"{"stage":"ResponseComplete","verb":"create","us"#,
    );

    #[test]
    fn requests_are_counted_once_and_a_half_written_line_not_at_all() {
        let records = parse(LOG.as_bytes()).unwrap();
        let seen: Vec<(&str, &str)> = records.iter().map(|r| (r.verb.as_str(), r.resource.as_str())).collect();
        assert_eq!(seen, [("patch", "jobs/status"), ("watch", "jobs"), ("get", "")]);
        assert_eq!((records[0].namespace.as_str(), records[0].name.as_str(), records[0].code), ("a", "train", 200));
    }

    #[test]
    fn a_mark_hides_what_came_before() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let first = LOG.lines().next().unwrap();
        std::fs::write(path.path(), format!("{first}\n")).unwrap();
        let log = AuditLog::new(path.path().to_owned());
        let mark = log.mark().unwrap();
        std::fs::write(path.path(), format!("{first}\n{first}\n{first}\n")).unwrap();
        let counts = log.counts_since(mark).unwrap();
        assert_eq!(counts, [(("dispatcher".into(), "patch".into(), "jobs/status".into()), 2)].into());
        assert_eq!(log.records_of(User::Restricted, AuditMark::default()).unwrap(), []);
    }
}
