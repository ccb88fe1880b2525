//! Resource quantities in thousandths: `100m`, `1.5`, `2Gi`, `1e3`.

use std::collections::BTreeMap;

/// Amounts of resources by name.
pub(crate) type Amounts = BTreeMap<String, i128>;

/// The quantity in thousandths of its unit, rounded up; none if it is none.
pub(crate) fn milli(text: &str) -> Option<i128> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-'))).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let factor: f64 = match suffix {
        "" => 1.0,
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024.0,
        "Mi" => 1024f64.powi(2),
        "Gi" => 1024f64.powi(3),
        "Ti" => 1024f64.powi(4),
        "Pi" => 1024f64.powi(5),
        "Ei" => 1024f64.powi(6),
        exponent => 10f64.powi(exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
    };
    let amount = number.parse::<f64>().ok()? * factor * 1000.0;
    // Far above any machine, and far below what an i128 holds.
    #[allow(clippy::cast_possible_truncation, reason = "clamped to a range that fits")]
    Some(amount.ceil().clamp(-1e30, 1e30) as i128)
}

/// Adds `more` to `total`.
pub(crate) fn add(total: &mut Amounts, more: &Amounts) {
    for (resource, amount) in more {
        *total.entry(resource.clone()).or_default() += amount;
    }
}

/// Takes `less` from `total`.
pub(crate) fn subtract(total: &mut Amounts, less: &Amounts) {
    for (resource, amount) in less {
        *total.entry(resource.clone()).or_default() -= amount;
    }
}

/// Raises `total` to at least `floor`.
pub(crate) fn raise(total: &mut Amounts, floor: &Amounts) {
    for (resource, amount) in floor {
        let known = total.entry(resource.clone()).or_default();
        *known = (*known).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_in_every_notation() {
        for (text, expected) in [
            ("100m", Some(100)),
            ("1", Some(1000)),
            ("1.5", Some(1500)),
            ("2Ki", Some(2_048_000)),
            ("1k", Some(1_000_000)),
            ("1e3", Some(1_000_000)),
            ("1E", Some(1_000_000_000_000_000_000_000)),
            ("", None),
            ("x", None),
            ("1x", None),
        ] {
            assert_eq!(milli(text), expected, "{text:?}");
        }
    }
}
