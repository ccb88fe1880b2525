//! Lengths of time, as people write them.

use std::{borrow::Cow, fmt, str::FromStr, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// What the API server lets pass. At most six digits a unit: nothing overflows.
const PATTERN: &str = "^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$";
const UNITS: [(char, u64); 3] = [('h', 3600), ('m', 60), ('s', 1)];

/// A length of time: `90s`, `15m`, `1h30m`.
///
/// ```
/// # use jobferry_api::Span;
/// let span: Span = "1h30m".parse()?;
/// assert_eq!(span.0.as_secs(), 5400);
/// assert_eq!(span.to_string(), "1h30m");
/// # Ok::<(), jobferry_api::SpanError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span(pub Duration);

/// Why a text is not a length of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a length of time; write hours, minutes and seconds in this order, for example 90s, 15m or 1h30m")]
pub struct SpanError(String);

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Self, SpanError> {
        let error = || SpanError(text.to_owned());
        let (mut rest, mut seconds) = (text, 0);
        for (unit, worth) in UNITS {
            if let Some((count, after)) = rest.split_once(unit) {
                let legal = (1..=6).contains(&count.len()) && count.bytes().all(|digit| digit.is_ascii_digit());
                seconds += count.parse::<u64>().ok().filter(|_| legal).ok_or_else(error)? * worth;
                rest = after;
            }
        }
        if rest.is_empty() && !text.is_empty() { Ok(Self(Duration::from_secs(seconds))) } else { Err(error()) }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.0.as_secs();
        if left == 0 {
            return f.write_str("0s");
        }
        for (unit, worth) in UNITS {
            if left >= worth {
                write!(f, "{}{unit}", left / worth)?;
                left %= worth;
            }
        }
        Ok(())
    }
}

impl TryFrom<String> for Span {
    type Error = SpanError;

    fn try_from(text: String) -> Result<Self, SpanError> {
        text.parse()
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.to_string()
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "minLength": 2, "maxLength": 21, "pattern": PATTERN })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_and_written_as_people_do() {
        for (text, seconds, written) in [
            ("0s", 0, "0s"),
            ("90s", 90, "1m30s"),
            ("15m", 900, "15m"),
            ("1h", 3600, "1h"),
            ("1h30m", 5400, "1h30m"),
            ("1h5s", 3605, "1h5s"),
            ("720h", 2_592_000, "720h"),
        ] {
            let span: Span = text.parse().unwrap();
            assert_eq!((span.0.as_secs(), span.to_string().as_str()), (seconds, written), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "15", "m", "-1m", "+1m", "1m1h", "1.5h", "1d", "15 m", "1h1h", "1000000h", "15mm", "m5"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }
}
