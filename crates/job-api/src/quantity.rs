//! Resource quantities such as `500m` and `1Gi`: their value, and the text that the server keeps.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

const NANO: i32 = -9;
const MILLI: i32 = -3;
/// The server computes in 64 bits up to this many decimal digits, and keeps the text as sent then.
const SHORT_DIGITS: i32 = 18;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notation {
    /// `1500m`, `2k`
    Decimal,
    /// `2e3`
    Exponent,
    /// `2Ki`
    Binary,
}

/// A parsed quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Amount {
    /// The value in billionths, rounded away from zero; what does not fit is the largest value.
    nano: i128,
    notation: Notation,
    /// The text as sent, where the server keeps it instead of writing a canonical one.
    kept_text: Option<String>,
    /// The decimal place of the last digit as sent.
    scale: i32,
}

impl Amount {
    /// Reads a quantity as the server does; `None` when it would refuse the whole request.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.is_empty() {
            return None;
        }
        if text == "0" {
            return Some(Self { nano: 0, notation: Notation::Decimal, kept_text: Some("0".to_owned()), scale: 0 });
        }
        let parts = Parts::split(text)?;
        let (base, exponent, notation) = interpret_suffix(parts.suffix)?;
        let digits = i32::try_from(parts.whole.len() + parts.fraction.len()).ok()?;
        let fraction_digits = i32::try_from(parts.fraction.len()).ok()?;
        let room = match notation {
            Notation::Binary if parts.fraction.is_empty() => 15 - digits - exponent * 3 / 10 - 1,
            Notation::Binary => -1,
            Notation::Decimal | Notation::Exponent => SHORT_DIGITS - digits,
        };
        let shifted = format!("{}{}", parts.whole, parts.fraction);
        let mantissa = saturating_number(&shifted);
        let (binary_factor, scale) = match base {
            2 => (1i128 << exponent, -fraction_digits),
            _ => (1, exponent.saturating_sub(fraction_digits)),
        };
        let magnitude = round_to_nano(mantissa.saturating_mul(binary_factor), scale);
        let is_short = room >= 0 && scale >= NANO && mantissa.saturating_mul(binary_factor) <= i128::from(i64::MAX);
        let is_canonical = match notation {
            Notation::Binary => mantissa & 0x07 != 0,
            _ => scale % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0'),
        };
        let mut amount = Self {
            nano: if parts.negative { -magnitude } else { magnitude },
            notation,
            kept_text: (is_short && is_canonical).then(|| text.to_owned()),
            scale: if is_short { scale } else { NANO },
        };
        if notation == Notation::Binary && !is_short {
            amount.cap_binary();
        }
        Some(amount)
    }

    /// Large binary quantities end at 64 bits; tiny ones are written in decimal.
    fn cap_binary(&mut self) {
        let limit = i128::from(i64::MAX) * 1_000_000_000;
        self.nano = self.nano.clamp(-limit, limit);
        if self.nano.abs() < 1_000_000_000 && self.nano != 0 {
            self.notation = Notation::Decimal;
        }
    }

    /// Container resources are kept in thousandths, rounded away from zero.
    fn round_up_to_milli(&mut self) {
        if self.scale < MILLI {
            self.kept_text = None;
            self.nano = divide_away_from_zero(self.nano, 1_000_000).saturating_mul(1_000_000);
        }
    }

    pub(crate) fn is_negative(&self) -> bool {
        self.nano < 0
    }

    /// The value in billionths: equal quantities have equal values, however they are written.
    pub(crate) fn nano(&self) -> i128 {
        self.nano
    }

    pub(crate) fn is_whole(&self) -> bool {
        divide_away_from_zero(self.nano, 1_000_000) % 1000 == 0
    }

    /// The value rounded up to a whole number.
    pub(crate) fn whole(&self) -> i128 {
        divide_away_from_zero(self.nano, 1_000_000_000)
    }

    /// The text that the server stores and sends back.
    pub(crate) fn canonical_text(&self) -> String {
        if let Some(text) = &self.kept_text {
            return text.clone();
        }
        if self.nano == 0 {
            return "0".to_owned();
        }
        let whole = self.nano / 1_000_000_000;
        let is_exact = self.nano % 1_000_000_000 == 0;
        if self.notation == Notation::Binary && whole.abs() >= 1024 && is_exact {
            let (number, times) = without_factors(whole, 1024);
            let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].get(times).copied().unwrap_or_default();
            return format!("{number}{suffix}");
        }
        let (mut number, times) = without_factors(self.nano, 10);
        let mut exponent = NANO + i32::try_from(times).unwrap_or(0);
        while exponent % 3 != 0 {
            number *= 10;
            exponent -= 1;
        }
        match self.notation {
            Notation::Exponent if exponent == 0 => number.to_string(),
            Notation::Exponent => format!("{number}e{exponent}"),
            _ => format!("{number}{}", decimal_suffix(exponent)),
        }
    }
}

/// The text that a server keeps for this quantity; `None`: it is none, and the whole request is refused.
///
/// ```
/// assert_eq!(job_api::quantity::canonical("1024Mi").as_deref(), Some("1Gi"));
/// assert_eq!(job_api::quantity::canonical("a lot"), None);
/// ```
pub fn canonical(text: &str) -> Option<String> {
    Amount::parse(text).map(|amount| amount.canonical_text())
}

/// Writes a quantity as the server keeps it; what it cannot read stays as it is.
pub(crate) fn canonicalise(quantity: &mut Quantity) {
    if let Some(amount) = Amount::parse(&quantity.0) {
        quantity.0 = amount.canonical_text();
    }
}

/// The same for a quantity in a resource list, which is rounded to thousandths.
pub(crate) fn canonicalise_resource(quantity: &mut Quantity) {
    if let Some(mut amount) = Amount::parse(&quantity.0) {
        amount.round_up_to_milli();
        quantity.0 = amount.canonical_text();
    }
}

struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Option<Self> {
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let unsigned = unsigned.trim_start_matches('0');
        let (whole, rest) = take_digits(unsigned);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), take_digits);
        let after_letters = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let exponent = after_letters.strip_prefix(['-', '+']).unwrap_or(after_letters);
        let whole = if whole.is_empty() { "0" } else { whole };
        exponent.bytes().all(|byte| byte.is_ascii_digit()).then_some(Self { negative, whole, fraction, suffix })
    }
}

fn take_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len()))
}

fn interpret_suffix(suffix: &str) -> Option<(u32, i32, Notation)> {
    let decimal = |exponent| Some((10, exponent, Notation::Decimal));
    let binary = |exponent| Some((2, exponent, Notation::Binary));
    match suffix {
        "" => decimal(0),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?;
            Some((10, exponent, Notation::Exponent))
        }
    }
}

fn decimal_suffix(exponent: i32) -> &'static str {
    match exponent {
        -9 => "n",
        -6 => "u",
        -3 => "m",
        3 => "k",
        6 => "M",
        9 => "G",
        12 => "T",
        15 => "P",
        18 => "E",
        _ => "",
    }
}

fn saturating_number(digits: &str) -> i128 {
    digits.bytes().fold(0i128, |number, digit| number.saturating_mul(10).saturating_add(i128::from(digit - b'0')))
}

fn round_to_nano(number: i128, scale: i32) -> i128 {
    let places = scale.saturating_sub(NANO);
    if number == 0 || places == 0 {
        return number;
    }
    let power = 10i128.checked_pow(places.unsigned_abs());
    match (places > 0, power) {
        (true, Some(power)) => number.saturating_mul(power),
        (true, None) => i128::MAX,
        (false, Some(power)) => divide_away_from_zero(number, power),
        (false, None) => 1,
    }
}

fn divide_away_from_zero(number: i128, divisor: i128) -> i128 {
    number / divisor + (number % divisor).signum()
}

fn without_factors(mut number: i128, factor: i128) -> (i128, usize) {
    let mut times = 0;
    while number.abs() >= factor && number % factor == 0 {
        number /= factor;
        times += 1;
    }
    (number, times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_kept_or_made_canonical_as_the_server_does() {
        for (text, stored) in [
            ("0", "0"),
            ("1", "1"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("1.500", "1.500"),
            ("0.0001", "1m"),
            ("100u", "1m"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("1023Mi", "1023Mi"),
            ("1024", "1024"),
            ("2000", "2k"),
            ("12e3", "12e3"),
            ("12000e0", "12e3"),
            ("05", "05"),
            ("+5", "+5"),
            ("0.1Ki", "102400m"),
            ("512Ki", "512Ki"),
            ("8Ki", "8Ki"),
            ("1E", "1E"),
            ("99999999999Gi", "9223372036854775807"),
            (" 1 ", "1"),
            ("not a quantity", "not a quantity"),
        ] {
            let mut quantity = Quantity(text.to_owned());
            canonicalise_resource(&mut quantity);
            assert_eq!(quantity.0, stored, "{text}");
        }
    }

    #[test]
    fn malformed_quantities_are_refused() {
        for text in ["", "x", "1x", "1 Gi", "1Gii", "1e", "--1", "1.2.3", "1m5x", "1e99999999999"] {
            assert_eq!(Amount::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn values_compare_however_they_are_written() {
        let nano = |text| Amount::parse(text).unwrap().nano();
        assert_eq!(nano("1Gi"), nano("1073741824"));
        assert_eq!(nano("1"), nano("1000m"));
        assert!(nano("1G") < nano("1Gi") && nano("-1") < nano("0"));
        assert!(Amount::parse("1500m").is_some_and(|amount| !amount.is_whole() && amount.whole() == 2));
    }
}
