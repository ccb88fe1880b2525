//! The schedule and the time zone of a CronJob, as far as their text goes.

/// Minute, hour, day of the month, month, day of the week: the smallest and the largest number, and names from the
/// smallest on.
const FIELDS: [(u32, u32, &[&str]); 5] = [
    (0, 59, &[]),
    (0, 23, &[]),
    (1, 31, &[]),
    (1, 12, &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]),
    (0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];

const DESCRIPTORS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

const ZONE_PART_MAX_BYTES: usize = 14;

/// True for the five fields of cron, and for descriptors such as `@daily` and `@every 1h30m`.
pub(crate) fn is_schedule(text: &str) -> bool {
    if let Some(duration) = text.strip_prefix("@every ") {
        return is_duration(duration);
    }
    if text.starts_with('@') {
        return DESCRIPTORS.contains(&text);
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    fields.len() == FIELDS.len()
        && fields.iter().zip(FIELDS).all(|(text, (min, max, names))| {
            // Empty entries of a list are skipped.
            text.split(',').filter(|entry| !entry.is_empty()).all(|entry| is_range(entry, min, max, names))
        })
}

/// `*`, `n`, `n-m`, each also with `/step`.
fn is_range(text: &str, min: u32, max: u32, names: &[&str]) -> bool {
    let (range, step) = text.split_once('/').map_or((text, None), |(range, step)| (range, Some(step)));
    if step.is_some_and(|step| !matches!(step.parse::<u32>(), Ok(1..))) {
        return false;
    }
    let number = |text: &str| {
        let spelled = names.iter().zip(min..).find(|(name, _)| name.eq_ignore_ascii_case(text));
        spelled.map(|(_, number)| number).or_else(|| text.parse().ok())
    };
    let bounds = match range.split_once('-') {
        Some((first, last)) => number(first).zip(number(last)),
        None if matches!(range, "*" | "?") => Some((min, max)),
        None => number(range).map(|only| (only, if step.is_some() { max } else { only })),
    };
    bounds.is_some_and(|(first, last)| min <= first && first <= last && last <= max)
}

/// `1h30m`, `1.5h`, `0`: numbers with units, as Go writes durations.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let is_empty = rest.is_empty();
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let (number, after) = rest.split_at(digits);
        let unit = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"].into_iter().find(|unit| after.starts_with(unit));
        match unit {
            Some(unit) if number.parse::<f64>().is_ok() => rest = &after[unit.len()..],
            _ => return false,
        }
    }
    !is_empty
}

/// True when the text could be the name of a time zone. Whether there is such a zone is known to the server alone.
pub(crate) fn is_time_zone(text: &str) -> bool {
    let is_part = |part: &str| {
        (1..=ZONE_PART_MAX_BYTES).contains(&part.len())
            && part != "."
            && part != ".."
            && !part.starts_with('-')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte))
    };
    text.split('/').all(is_part) && !text.eq_ignore_ascii_case("local")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_five_fields_or_a_descriptor() {
        for text in [
            "* * * * *",
            "*/5 0-12/2 1,15 jan-MAR mon",
            "0 3 ? * 0",
            "5/10 * * * *",
            " 1  2 3 4 5 ",
            "@daily",
            "@every 1h30m",
            "@every 1.5h",
        ] {
            assert!(is_schedule(text), "{text:?}");
        }
        for text in [
            "",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 7",
            "5-1 * * * *",
            "*/0 * * * *",
            "1-2-3 * * * *",
            "1/2/3 * * * *",
            "x * * * *",
            "-1 * * * *",
            "@sometimes",
            "@every",
            "@every x",
            "@every ",
        ] {
            assert!(!is_schedule(text), "{text:?}");
        }
    }

    #[test]
    fn time_zones_look_like_paths_of_short_names() {
        for text in ["Europe/Berlin", "UTC", "Etc/GMT+1", "America/Argentina/Ushuaia"] {
            assert!(is_time_zone(text), "{text}");
        }
        for text in ["", "Local", "../etc", "a//b", "Europe/Berlin/", "way-too-long-a-name", "a b", "-x"] {
            assert!(!is_time_zone(text), "{text}");
        }
    }
}
