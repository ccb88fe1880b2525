//! Resource quantities (`500m`, `1Gi`, `2e3`) in their canonical spelling.

/// Powers of 1000 with their suffixes, and of 1024.
const DECIMAL: [(&str, i32); 9] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15)];
const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// Finer than this is rounded up, as Kubernetes does.
const FINEST: i32 = -9;

#[derive(Clone, Copy, PartialEq)]
enum Suffix {
    Decimal,
    Binary,
    Exponent,
}

/// The canonical spelling of `text`, or `None` when it is no quantity: no fraction, the largest suffix that keeps the
/// number whole.
pub(crate) fn canonical(text: &str) -> Option<String> {
    let (nanos, family) = parse(text)?;
    let sign = if nanos < 0 { "-" } else { "" };
    let magnitude = nanos.unsigned_abs();
    let one = 10_u128.pow(9);
    if magnitude == 0 {
        return Some("0".into());
    }
    if family == Suffix::Binary && magnitude % one == 0 && magnitude / one >= 1024 {
        let whole = magnitude / one;
        let suffix = BINARY.iter().rev().find(|(_, power)| whole.is_multiple_of(1_u128 << power));
        return Some(match suffix {
            Some((name, power)) => format!("{sign}{}{name}", whole >> power),
            None => format!("{sign}{whole}"),
        });
    }
    let exponent = (0..=27).rev().step_by(3).find(|power| magnitude % 10_u128.pow(*power) == 0)?;
    let digits = magnitude / 10_u128.pow(exponent);
    let power = i32::try_from(exponent).ok()? + FINEST;
    if family == Suffix::Exponent {
        return Some(if power == 0 { format!("{sign}{digits}") } else { format!("{sign}{digits}e{power}") });
    }
    match DECIMAL.iter().find(|(_, known)| *known == power) {
        Some((name, _)) => Some(format!("{sign}{digits}{name}")),
        None => Some(format!("{sign}{digits}E")),
    }
}

/// The value in units of 10^-9, rounded up, and the family of its suffix.
fn parse(text: &str) -> Option<(i128, Suffix)> {
    let (negative, text) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') || whole.len() + fraction.len() > 24 {
        return None;
    }
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let scale = i32::try_from(fraction.len()).ok()?;
    let (factor, power, family) = suffix_of(suffix)?;
    let shift = power - scale - FINEST;
    let scaled = digits.checked_mul(factor)?;
    let magnitude = if shift >= 0 {
        scaled.checked_mul(10_u128.checked_pow(shift.unsigned_abs())?)?
    } else {
        scaled.div_ceil(10_u128.checked_pow(shift.unsigned_abs())?)
    };
    let value = i128::try_from(magnitude).ok()?;
    Some((if negative { -value } else { value }, family))
}

/// (factor, power of ten, family) of a suffix.
fn suffix_of(suffix: &str) -> Option<(u128, i32, Suffix)> {
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((1, *power, Suffix::Decimal));
    }
    if suffix == "E" {
        return Some((1, 18, Suffix::Decimal));
    }
    if let Some((_, power)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Some((1 << power, 0, Suffix::Binary));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let power: i32 = exponent.parse().ok()?;
    (power.abs() <= 18).then_some((1, power, Suffix::Exponent))
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn quantities_have_one_spelling() {
        let cases = [
            ("1000m", Some("1")),
            ("0.5", Some("500m")),
            ("500m", Some("500m")),
            ("1024Mi", Some("1Gi")),
            ("1.5Gi", Some("1536Mi")),
            ("128974848", Some("128974848")),
            ("1e3", Some("1e3")),
            ("2000", Some("2k")),
            ("0", Some("0")),
            ("0.0000000001", Some("1n")),
            ("-5m", Some("-5m")),
            ("", None),
            ("abc", None),
            ("1.2.3", None),
            ("5 Gi", None),
        ];
        for (given, expected) in cases {
            assert_eq!(canonical(given).as_deref(), expected, "{given}");
        }
    }
}
