//! Query parameters, as the types that handlers work with.

use std::collections::HashMap;
use std::time::Duration;

use crate::error::{ApiError, Cause};
use crate::registry::{Resource, Strategy};
use crate::selector::{FieldSelector, LabelSelector};

/// Names of field managers may not be longer.
const MANAGER_LIMIT_BYTES: usize = 128;

/// The decoded query string. The first value of a repeated key counts.
#[derive(Debug, Default)]
pub(crate) struct Query(HashMap<String, String>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    Exact,
    NotOlderThan,
}

/// How a write is to be done.
#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) field_validation: FieldValidation,
    /// Who is told to own what this write changes.
    pub(crate) manager: String,
    /// Take fields over from other owners.
    pub(crate) force: bool,
}

/// What a list or a watch selects, and from which version.
#[derive(Debug)]
pub(crate) struct ListQuery {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    /// `None`: the most recent. Zero: any.
    pub(crate) version: Option<u64>,
    pub(crate) version_match: Option<VersionMatch>,
    pub(crate) limit: Option<usize>,
    pub(crate) resume: Option<String>,
    pub(crate) watch: bool,
    pub(crate) bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) timeout: Option<Duration>,
}

impl WriteOptions {
    /// For writes of the server itself.
    pub(crate) fn internal() -> Self {
        Self {
            dry_run: false,
            field_validation: FieldValidation::Ignore,
            manager: "jobferry-apiserver".into(),
            force: false,
        }
    }
}

impl Query {
    pub(crate) fn parse(query: Option<&str>) -> Self {
        let mut values = HashMap::new();
        for (key, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            values.entry(key.into_owned()).or_insert_with(|| value.into_owned());
        }
        Self(values)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    fn non_empty(&self, key: &str) -> Option<&str> {
        self.get(key).filter(|value| !value.is_empty())
    }

    /// Go's reading of a boolean parameter: present without a value means yes.
    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        self.get(key).map(|value| !matches!(value, "false" | "0" | "f" | "F" | "False" | "FALSE"))
    }

    pub(crate) fn number<N: std::str::FromStr>(&self, key: &str) -> Result<Option<N>, ApiError> {
        self.non_empty(key)
            .map(|text| {
                text.parse().map_err(|_| {
                    ApiError::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax in {key}"))
                })
            })
            .transpose()
    }

    /// `options` is what upstream calls the parameters of this verb: `CreateOptions`, ...
    pub(crate) fn write_options(&self, options: &str, user_agent: &str) -> Result<WriteOptions, ApiError> {
        let dry_run = match self.non_empty("dryRun") {
            None => false,
            Some("All") => true,
            Some(other) => {
                let cause = Cause::not_supported("dryRun", &serde_json::json!([other]), &["\"All\"".into()]);
                return Err(ApiError::invalid_options(options, &cause));
            }
        };
        let field_validation = match self.non_empty("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Strict") => FieldValidation::Strict,
            Some("Ignore") => FieldValidation::Ignore,
            Some(other) => {
                let allowed = ["\"\"", "\"Ignore\"", "\"Warn\"", "\"Strict\""].map(str::to_owned);
                let cause = Cause::not_supported("fieldValidation", &other.into(), &allowed);
                return Err(ApiError::invalid_options(options, &cause));
            }
        };
        // A client that does not name its manager is known by the first word of its user agent.
        let fallback = || user_agent.split('/').next().unwrap_or_default();
        let manager = self.non_empty("fieldManager").unwrap_or_else(fallback).to_owned();
        if manager.len() > MANAGER_LIMIT_BYTES {
            let cause = Cause {
                reason: "FieldValueTooLong".into(),
                message: format!("Too long: may not be more than {MANAGER_LIMIT_BYTES} bytes"),
                field: "fieldManager".into(),
            };
            return Err(ApiError::invalid_options(options, &cause));
        }
        Ok(WriteOptions { dry_run, field_validation, manager, force: self.flag("force").unwrap_or(false) })
    }

    /// Whether the client named its field manager; server-side apply insists on it.
    pub(crate) fn names_manager(&self) -> bool {
        self.non_empty("fieldManager").is_some()
    }

    pub(crate) fn list(&self, resource: &Resource) -> Result<ListQuery, ApiError> {
        let labels =
            LabelSelector::parse(self.get("labelSelector").unwrap_or_default()).map_err(ApiError::bad_request)?;
        let fields =
            FieldSelector::parse(self.get("fieldSelector").unwrap_or_default(), |field| is_selectable(resource, field))
                .map_err(ApiError::bad_request)?;
        let version_match = match self.non_empty("resourceVersionMatch") {
            None => None,
            Some("Exact") => Some(VersionMatch::Exact),
            Some("NotOlderThan") => Some(VersionMatch::NotOlderThan),
            Some(other) => {
                return Err(invalid_list(&Cause::not_supported(
                    "resourceVersionMatch",
                    &other.into(),
                    &["\"Exact\"".into(), "\"NotOlderThan\"".into()],
                )));
            }
        };
        let query = ListQuery {
            labels,
            fields,
            version: self.version()?,
            version_match,
            limit: self.number::<usize>("limit")?.filter(|limit| *limit > 0),
            resume: self.non_empty("continue").map(str::to_owned),
            watch: self.flag("watch").unwrap_or(false),
            bookmarks: self.flag("allowWatchBookmarks").unwrap_or(false),
            send_initial_events: self.flag("sendInitialEvents"),
            timeout: self.number::<u64>("timeoutSeconds")?.filter(|s| *s > 0).map(Duration::from_secs),
        };
        query.check()?;
        Ok(query)
    }

    fn version(&self) -> Result<Option<u64>, ApiError> {
        self.non_empty("resourceVersion")
            .map(|text| {
                text.parse().map_err(|_| {
                    ApiError::bad_request(format!("resourceVersion: Invalid value: {text:?}: must be a number"))
                })
            })
            .transpose()
    }
}

impl ListQuery {
    /// The combinations that Kubernetes refuses.
    fn check(&self) -> Result<(), ApiError> {
        let forbidden = |field: &str, why: &str| Err(invalid_list(&Cause::forbidden(field, why)));
        if self.watch {
            return match (self.send_initial_events, self.version_match) {
                (Some(_), None | Some(VersionMatch::Exact)) => forbidden(
                    "resourceVersionMatch",
                    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                ),
                (None, Some(_)) => forbidden(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ),
                _ => Ok(()),
            };
        }
        if self.send_initial_events.is_some() {
            return forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list");
        }
        match (self.version_match, self.version, &self.resume) {
            (Some(_), _, Some(_)) => {
                forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
            }
            (Some(_), None, _) => forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ),
            (Some(VersionMatch::Exact), Some(0), _) => forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ),
            _ => Ok(()),
        }
    }
}

fn invalid_list(cause: &Cause) -> ApiError {
    ApiError::invalid_options("ListOptions", cause)
}

fn is_selectable(resource: &Resource, field: &str) -> bool {
    match field {
        "metadata.name" => true,
        "metadata.namespace" => resource.namespaced || resource.strategy != Strategy::Custom,
        _ => resource.selectable.iter().any(|known| known == field),
    }
}
