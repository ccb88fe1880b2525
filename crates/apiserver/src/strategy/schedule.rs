//! Whether a text is a cron schedule: five fields, or a word like `@hourly`.

/// Field names with their bounds and the words that stand for numbers, from the lowest on.
const FIELDS: [(&str, u32, u32, &[&str]); 5] = [
    ("minute", 0, 59, &[]),
    ("hour", 0, 23, &[]),
    ("day of month", 1, 31, &[]),
    ("month", 1, 12, &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]),
    ("day of week", 0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];

const WORDS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Says what is wrong with a schedule.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    if let Some(word) = schedule.strip_prefix('@') {
        let is_interval = word.strip_prefix("every ").is_some_and(|interval| !interval.is_empty());
        return if is_interval || WORDS.contains(&schedule) {
            Ok(())
        } else {
            Err(format!("unrecognized descriptor: {schedule}"))
        };
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    for (text, (name, low, high, words)) in fields.iter().zip(FIELDS) {
        for part in text.split(',') {
            check_part(part, low, high, words).map_err(|why| format!("{why} in {name}: {part}"))?;
        }
    }
    Ok(())
}

/// One alternative of a field: `*`, `5`, `1-5`, each with an optional `/step`.
fn check_part(part: &str, low: u32, high: u32, words: &[&str]) -> Result<(), &'static str> {
    let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
    if step.is_some_and(|step| step.parse::<u32>().map_or(true, |step| step == 0)) {
        return Err("the step must be a positive number");
    }
    if range == "*" || range == "?" {
        return Ok(());
    }
    let number = |text: &str| {
        let word = words.iter().position(|word| word.eq_ignore_ascii_case(text));
        let word = word.and_then(|at| u32::try_from(at).ok()).map(|at| at + low);
        word.or_else(|| text.parse().ok()).filter(|number| (low..=high).contains(number))
    };
    let (from, to) = range.split_once('-').unwrap_or((range, range));
    match (number(from), number(to)) {
        (Some(from), Some(to)) if from <= to => Ok(()),
        _ => Err("out of range"),
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn schedules_are_told_from_other_texts() {
        for good in ["*/5 * * * *", "0 2 1-15 jan,jul mon-fri", "@hourly", "@every 5m", "0 0 ? * 0"] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in
            ["often", "* * * *", "60 * * * *", "* 24 * * *", "*/0 * * * *", "5-1 * * * *", "@sometimes", "* * * * 7"]
        {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
