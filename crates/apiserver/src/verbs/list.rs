//! get and list.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde_json::{Value, json};

use super::render::{ListMeta, Renderer};
use crate::error::ApiError;
use crate::http::{ListQuery, Reply, VersionMatch, negotiate};
use crate::selection::Selection;
use crate::server::{Call, Inner};
use crate::store::{Expired, Key, Listing, Stored};

impl Inner {
    /// Decides once per request how its answers look.
    pub(crate) fn renderer(&self, call: &Call) -> Result<Renderer, ApiError> {
        let form = negotiate(&call.parts.headers, call.query.get("includeObject"))?;
        Ok(Renderer { resource: Arc::clone(&call.resource), form, now: self.now() })
    }

    pub(super) fn get(&self, call: &Call) -> Result<Reply, ApiError> {
        let renderer = self.renderer(call)?;
        Ok(renderer.reply(&*self.stored(call)?))
    }

    /// The object in the path, or 404.
    pub(super) fn stored(&self, call: &Call) -> Result<Arc<Stored>, ApiError> {
        let key = call.key();
        self.store.get(&call.resource.table, &key).ok_or_else(|| ApiError::not_found(&call.resource, &key.name))
    }

    pub(super) fn list_or_watch(self: &Arc<Self>, call: &Call) -> Result<Reply, ApiError> {
        let query = call.query.list(&call.resource)?;
        if query.watch {
            return self.watch(call, &query);
        }
        let renderer = self.renderer(call)?;
        let (objects, meta) = self.page_of(call, &query)?;
        Ok(Reply::json(renderer.list(&objects, &meta)))
    }

    fn page_of(&self, call: &Call, query: &ListQuery) -> Result<(Vec<Arc<Stored>>, ListMeta), ApiError> {
        let token = query.resume.as_deref().map(Token::decode).transpose()?;
        let selection = Selection::new(&call.resource, call.namespace.as_deref(), query);
        if let Some(limit) = query.limit
            && token.is_none()
            && query.version_match != Some(VersionMatch::Exact)
            && query.fields.exact_name().is_none()
        {
            return self.first_page(call, query, limit, &selection);
        }
        let listing = self.listing(call, query, token.as_ref())?;
        let mut chosen: Vec<Arc<Stored>> = listing
            .objects
            .into_iter()
            .filter(|stored| token.as_ref().is_none_or(|token| stored.key > token.after))
            .filter(|stored| selection.matches(stored))
            .collect();
        let left = query.limit.map_or(0, |limit| chosen.len().saturating_sub(limit));
        chosen.truncate(chosen.len() - left);
        let meta = meta_of(query, listing.version, &chosen, left);
        Ok((chosen, meta))
    }

    fn first_page(
        &self,
        call: &Call,
        query: &ListQuery,
        limit: usize,
        selection: &Selection,
    ) -> Result<(Vec<Arc<Stored>>, ListMeta), ApiError> {
        not_ahead(query, self.store.version())?;
        let matches = |stored: &Stored| selection.matches(stored);
        let page = self.store.first(&call.resource.table, call.namespace.as_deref(), limit, matches);
        let meta = meta_of(query, page.version, &page.objects, page.left);
        Ok((page.objects, meta))
    }

    fn listing(&self, call: &Call, query: &ListQuery, token: Option<&Token>) -> Result<Listing, ApiError> {
        let (table, namespace) = (&call.resource.table, call.namespace.as_deref());
        if let Some(name) = query.fields.exact_name()
            && token.is_none()
            && query.version_match != Some(VersionMatch::Exact)
            && let Some(namespace) = namespace.or((!call.resource.namespaced).then_some(""))
        {
            let version = self.store.version();
            let key = Key { namespace: namespace.to_owned(), name: name.to_owned() };
            not_ahead(query, version)?;
            return Ok(Listing { objects: self.store.get(table, &key).into_iter().collect(), version });
        }
        let at = match (token, query.version_match) {
            (Some(token), _) => Some(token.version),
            (None, Some(VersionMatch::Exact)) => query.version,
            _ => None,
        };
        not_ahead(query, self.store.version())?;
        self.store.list(table, namespace, at).map_err(|Expired(_)| {
            ApiError::expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter.",
            )
        })
    }
}

/// What a page says of itself, if so many objects come after it.
fn meta_of(query: &ListQuery, version: u64, page: &[Arc<Stored>], left: usize) -> ListMeta {
    if left == 0 {
        return ListMeta { version, ..ListMeta::default() };
    }
    // Selectors hide how much is left, so that Kubernetes does not tell then.
    let selects = !query.labels.is_empty() || !query.fields.is_empty();
    let resume = page.last().map(|last| Token { version, after: last.key.clone() }.encode());
    ListMeta { version, remaining: (!selects).then_some(left), resume }
}

/// A list may not be older than a version that the client has seen: if it has not happened here yet, say so.
fn not_ahead(query: &ListQuery, version: u64) -> Result<(), ApiError> {
    match query.version {
        Some(wanted) if wanted > version => {
            let mut error = ApiError::unavailable(format!("Too large resource version: {wanted}, current: {version}"));
            error.code = 504;
            error.reason = "Timeout";
            error.details = Some(json!({
                "retryAfterSeconds": 1,
                "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            }));
            Err(error)
        }
        _ => Ok(()),
    }
}

/// Where a paged list goes on: after this key, in the state of this version.
struct Token {
    version: u64,
    after: Key,
}

impl Token {
    fn encode(&self) -> String {
        let token =
            json!({"v": "meta.k8s.io/v1", "rv": self.version, "start": [self.after.namespace, self.after.name]});
        BASE64.encode(token.to_string())
    }

    fn decode(text: &str) -> Result<Self, ApiError> {
        let token: Option<Value> = BASE64.decode(text).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let token = token.unwrap_or_default();
        match (token["rv"].as_u64(), token["start"][0].as_str(), token["start"][1].as_str()) {
            (Some(version), Some(namespace), Some(name)) => {
                Ok(Self { version, after: Key { namespace: namespace.to_owned(), name: name.to_owned() } })
            }
            _ => Err(ApiError::bad_request("continue key is not valid: it was not issued by this server")),
        }
    }
}
