//! The life of a worker's token: what it says of itself, and when it wants a successor.
//!
//! ```text
//!   issued ──────────── half: renew ──────────── three quarters: warn ──────────── expires
//! ```
//!
//! What a token says is read, never believed: only the server that issued it can tell whether it is good.

use std::time::Duration;

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use crate::time::Now;

/// Life of a token that does not say when it was issued: what `jobferry worker join` asks for.
pub const USUAL_LIFE: SignedDuration = SignedDuration::from_hours(24);

/// What a token says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// When its life began.
    pub issued: Timestamp,
    /// When it ends.
    pub expires: Timestamp,
    /// Whom it speaks for, if a successor can be asked for.
    pub account: Option<Account>,
}

/// A ServiceAccount that may be asked for a successor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The Secret, in the same namespace, that the token lives no longer than.
    pub secret: Option<String>,
}

/// Reads a token. `None`: it says nothing of its end, as a static one.
pub fn read(token: &str) -> Option<Claims> {
    let claims = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let Stated { iat, exp, kubernetes } = serde_json::from_slice(&claims).ok()?;
    let expires = Timestamp::from_second(exp).ok()?;
    let issued = iat.and_then(|iat| Timestamp::from_second(iat).ok()).filter(|issued| *issued < expires);
    let issued = issued.or_else(|| expires.checked_sub(USUAL_LIFE).ok())?;
    Some(Claims { issued, expires, account: kubernetes.and_then(Bound::account) })
}

#[derive(Deserialize)]
struct Stated {
    iat: Option<i64>,
    exp: i64,
    #[serde(rename = "kubernetes.io")]
    kubernetes: Option<Bound>,
}

#[derive(Deserialize)]
struct Bound {
    namespace: String,
    serviceaccount: Named,
    secret: Option<Named>,
    pod: Option<Named>,
    node: Option<Named>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

impl Bound {
    /// A token that lives with a pod or a node has no successor that does the same.
    fn account(self) -> Option<Account> {
        let Self { namespace, serviceaccount, secret, pod, node } = self;
        let account = Account { namespace, name: serviceaccount.name, secret: secret.map(|secret| secret.name) };
        // They go into a path: what no object can be called is not asked for.
        let plain = |text: &str| {
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b))
        };
        let named = plain(&account.namespace) && plain(&account.name);
        (named && pod.is_none() && node.is_none()).then_some(account)
    }
}

impl Claims {
    /// How long it lives in all.
    pub fn life(&self) -> SignedDuration {
        self.expires.duration_since(self.issued)
    }

    /// When a successor is to be asked for: there is as much time left for failures as was quiet before.
    pub fn renew_at(&self) -> Timestamp {
        self.expires.checked_sub(self.life() / 2).unwrap_or(self.expires)
    }

    /// How long until then. Not before `rest_until` (monotonic), whatever the wall clock says: with a clock that is hours
    /// ahead of the worker's, a successor would look as old as its predecessor.
    pub fn renew_in(&self, now: Now, rest_until: Duration) -> Duration {
        let by_the_clock = Duration::try_from(self.renew_at().duration_since(now.wall)).unwrap_or_default();
        by_the_clock.max(rest_until.saturating_sub(now.monotonic))
    }

    /// How long a token that has just come is left in peace.
    pub fn rest(&self) -> Duration {
        Duration::try_from(self.life() / 4).unwrap_or_default()
    }

    /// So little is left that somebody should look.
    pub fn is_scarce(&self, now: Timestamp) -> bool {
        self.expires.duration_since(now) < self.life() / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn token(claims: &Value) -> String {
        format!("header.{}.signature", BASE64_URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn bound(more: &Value) -> Value {
        let mut bound = json!({"namespace": "jobferry-system", "serviceaccount": {"name": "jobferry-1", "uid": "u"}});
        bound.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"iat": 1_000_000, "exp": 1_086_400, "kubernetes.io": bound})
    }

    #[test]
    fn a_bound_token_says_whom_it_speaks_for_and_how_long_it_lives() {
        let claims = read(&token(&bound(&json!({"secret": {"name": "anchor", "uid": "s"}})))).unwrap();
        let account =
            Account { namespace: "jobferry-system".into(), name: "jobferry-1".into(), secret: Some("anchor".into()) };
        assert_eq!(claims, Claims { issued: at(1_000_000), expires: at(1_086_400), account: Some(account) });
    }

    #[test]
    fn it_is_renewed_at_half_of_its_life_and_worth_a_warning_in_its_last_quarter() {
        let claims = read(&token(&bound(&json!({})))).unwrap();
        assert_eq!(claims.renew_at(), at(1_043_200));
        assert!(!claims.is_scarce(at(1_064_800)));
        assert!(claims.is_scarce(at(1_064_801)));
        assert!(claims.is_scarce(at(2_000_000)), "also when it is over");
    }

    #[test]
    fn a_clock_that_is_ahead_does_not_renew_again_and_again() {
        let claims = read(&token(&bound(&json!({})))).unwrap();
        let now = |wall, monotonic| Now { wall: at(wall), monotonic: Duration::from_secs(monotonic) };
        assert_eq!(claims.renew_in(now(1_000_000, 5), Duration::ZERO), Duration::from_secs(43_200));
        assert_eq!(claims.renew_in(now(1_050_000, 5), Duration::ZERO), Duration::ZERO);
        let rest_until = Duration::from_secs(5) + claims.rest();
        assert_eq!(claims.renew_in(now(1_050_000, 5), rest_until), Duration::from_secs(21_600));
    }

    #[test]
    fn without_a_beginning_it_counts_as_a_days() {
        for iat in [Value::Null, json!(1_086_400), json!(9_000_000)] {
            let claims = read(&token(&json!({"iat": iat, "exp": 1_086_400}))).unwrap();
            assert_eq!((claims.renew_at(), claims.account), (at(1_043_200), None), "iat {iat}");
        }
    }

    #[test]
    fn no_successor_is_asked_for_where_it_would_be_another_credential() {
        for more in [
            json!({"pod": {"name": "p"}}),
            json!({"node": {"name": "n"}}),
            json!({"namespace": "a/b"}),
            json!({"serviceaccount": {"name": "../secrets"}}),
            json!({"serviceaccount": {"name": ""}}),
        ] {
            assert_eq!(read(&token(&bound(&more))).unwrap().account, None, "{more}");
        }
    }

    #[test]
    fn what_is_no_token_says_nothing() {
        let endless = token(&json!({"iat": 1}));
        for text in ["", "secret", "a.b.c", "a.!.c", &endless] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
