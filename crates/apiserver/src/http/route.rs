//! What a path means.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The thing a request is about.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Health,
    Version,
    Metrics,
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/batch`
    Group(String),
    /// `/api/v1`, `/apis/batch/v1`
    GroupVersion {
        group: String,
        version: String,
    },
    OpenApiIndex,
    OpenApi {
        group: String,
        version: String,
    },
    Resource(ResourcePath),
    Nothing,
}

/// A path into the resources: a collection, an object, or a part of one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: Option<String>,
    pub(crate) plural: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

/// Reads a path. Empty segments (a doubled or trailing slash in the middle of names) lead nowhere, except one at the
/// end, which Kubernetes forgives too.
pub(crate) fn route(path: &str) -> Target {
    let Some(segments) = segments(path) else { return Target::Nothing };
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    match segments.as_slice() {
        ["livez" | "readyz" | "healthz", ..] => Target::Health,
        ["version"] => Target::Version,
        ["metrics"] => Target::Metrics,
        ["api"] => Target::CoreVersions,
        ["apis"] => Target::Groups,
        ["apis", group] => Target::Group((*group).to_owned()),
        ["api", version] => Target::GroupVersion { group: String::new(), version: (*version).to_owned() },
        ["apis", group, version] => Target::GroupVersion { group: (*group).to_owned(), version: (*version).to_owned() },
        ["openapi", "v3"] => Target::OpenApiIndex,
        ["openapi", "v3", "api", version] => Target::OpenApi { group: String::new(), version: (*version).to_owned() },
        ["openapi", "v3", "apis", group, version] => {
            Target::OpenApi { group: (*group).to_owned(), version: (*version).to_owned() }
        }
        ["api", version, rest @ ..] => resource("", version, rest),
        ["apis", group, version, rest @ ..] => resource(group, version, rest),
        _ => Target::Nothing,
    }
}

fn segments(path: &str) -> Option<Vec<String>> {
    let path = path.strip_prefix('/')?;
    let path = path.strip_suffix('/').unwrap_or(path);
    path.split('/')
        .map(|segment| percent_decode_str(segment).decode_utf8().ok().map(Cow::into_owned))
        .map(|segment| segment.filter(|text| !text.is_empty() && !text.contains('/') && text != "." && text != ".."))
        .collect()
}

fn resource(group: &str, version: &str, rest: &[&str]) -> Target {
    let path = ResourcePath { group: group.to_owned(), version: version.to_owned(), ..ResourcePath::default() };
    let owned = |text: &str| Some(text.to_owned());
    Target::Resource(match rest {
        // The namespace object itself and its parts; everything longer is a resource inside of it.
        ["namespaces", name] if group.is_empty() => {
            ResourcePath { plural: "namespaces".into(), name: owned(name), ..path }
        }
        ["namespaces", name, part @ ("status" | "finalize")] if group.is_empty() => {
            ResourcePath { plural: "namespaces".into(), name: owned(name), subresource: owned(part), ..path }
        }
        ["namespaces", namespace, plural, rest @ ..] if rest.len() <= 2 => ResourcePath {
            namespace: owned(namespace),
            plural: (*plural).to_owned(),
            name: rest.first().and_then(|name| owned(name)),
            subresource: rest.get(1).and_then(|part| owned(part)),
            ..path
        },
        [plural] => ResourcePath { plural: (*plural).to_owned(), ..path },
        [plural, name] => ResourcePath { plural: (*plural).to_owned(), name: owned(name), ..path },
        [plural, name, part] => {
            ResourcePath { plural: (*plural).to_owned(), name: owned(name), subresource: owned(part), ..path }
        }
        _ => return Target::Nothing,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(namespace: Option<&str>, name: Option<&str>, subresource: Option<&str>) -> Target {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Target::Resource(ResourcePath {
            group: "batch".into(),
            version: "v1".into(),
            namespace: owned(namespace),
            plural: "jobs".into(),
            name: owned(name),
            subresource: owned(subresource),
        })
    }

    #[test]
    fn paths_lead_where_kubernetes_says() {
        let cases = [
            ("/apis/batch/v1/jobs", job(None, None, None)),
            ("/apis/batch/v1/namespaces/a/jobs", job(Some("a"), None, None)),
            ("/apis/batch/v1/namespaces/a/jobs/", job(Some("a"), None, None)),
            ("/apis/batch/v1/namespaces/a/jobs/b", job(Some("a"), Some("b"), None)),
            ("/apis/batch/v1/namespaces/a/jobs/b/status", job(Some("a"), Some("b"), Some("status"))),
            ("/apis/batch/v1/namespaces/a/jobs/b/status/c", Target::Nothing),
            ("/apis/batch", Target::Group("batch".into())),
            ("/api/v1", Target::GroupVersion { group: String::new(), version: "v1".into() }),
            ("/livez/ping", Target::Health),
            ("/", Target::Nothing),
            ("/api//v1/pods", Target::Nothing),
            ("/api/v1/namespaces/../pods", Target::Nothing),
            ("/api/v1/namespaces/%2e%2e/pods", Target::Nothing),
            ("/api/v1/namespaces/a%2fb/pods", Target::Nothing),
            ("/api/v1/namespaces/%ff/pods", Target::Nothing),
        ];
        for (path, expected) in cases {
            assert_eq!(route(path), expected, "{path}");
        }
        let Target::Resource(namespace) = route("/api/v1/namespaces/a/finalize") else { panic!() };
        assert_eq!((namespace.name.as_deref(), namespace.subresource.as_deref()), (Some("a"), Some("finalize")));
    }
}
